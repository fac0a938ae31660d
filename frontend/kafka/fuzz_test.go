package kafka

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker/brokertest"
	"ringlog/record"
)

// fuzzSlack is what decoding may allocate whatever the size of its input.
const fuzzSlack = 64 << 10

// FuzzControlBody decodes any bytes as the body of any API and version that kmsg decodes: no panic, and
// no more memory than the body is accounted for. What does decode is a request that encodes, and
// decodes to the same again.
func FuzzControlBody(f *testing.F) {
	for _, row := range registry {
		if row == nil || row.receive != nil {
			continue
		}
		for version := row.min; version <= row.max; version++ {
			body := kmsg.RequestForKey(int16(row.key))
			body.SetVersion(version)
			f.Add(byte(row.key), byte(version), body.AppendTo(nil))
			f.Add(byte(row.key), byte(version), bytes.Repeat([]byte{2, 1, 5, 0}, 16))
		}
	}
	f.Fuzz(func(t *testing.T, key, version byte, body []byte) {
		row := lookup(int16(key))
		if row == nil || row.receive != nil || len(body) > 64<<10 {
			return
		}
		r := request{requestHeader: requestHeader{key: int16(key), version: row.min + int16(version)%(row.max-row.min+1)}, api: row, body: body}
		var decoded kmsg.Request
		var err error
		if got := allocated(func() { decoded, err = decodeBody(&r) }); got > uint64(len(body))*decodedFactor+fuzzSlack {
			t.Fatalf("%d bytes of %s version %d become %d", len(body), row.key.Name(), r.version, got)
		}
		if err != nil {
			return
		}
		once := decoded.AppendTo(nil)
		again := kmsg.RequestForKey(int16(key))
		again.SetVersion(r.version)
		if err := again.ReadFrom(once); err != nil {
			t.Fatalf("%s version %d does not decode from its own bytes: %v\n%x", row.key.Name(), r.version, err, once)
		}
		if twice := again.AppendTo(nil); !bytes.Equal(once, twice) {
			t.Fatalf("%s version %d does not come out the same:\n%x\n%x", row.key.Name(), r.version, once, twice)
		}
	})
}

// FuzzProduceBody decodes any bytes as a Produce by hand and by kmsg: what both take has the same
// topics, partitions and records, and what it costs is in proportion.
func FuzzProduceBody(f *testing.F) {
	s := newScene(f, Options{})
	topic := brokertest.CreateTopic(f, s.broker, "orders", 1, nil)
	for version := int16(3); version <= 13; version++ {
		f.Add(byte(version), produceRequest(version, "orders", topic.ID, batch(record.CodecNone, "a")).AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, version byte, body []byte) {
		if len(body) > 64<<10 {
			return
		}
		row := lookup(int16(kmsg.Produce))
		c := newProduceCall()
		c.session, c.version, c.produce = s.session.(*session), produceVersionMin+int16(version)%(row.max-produceVersionMin+1), s.broker.NewProduce()
		c.flexible = c.version >= row.flexibleMin
		defer c.release()
		var err error
		if got := allocated(func() { err = c.decode(body) }); got > uint64(len(body))*decodedFactor+fuzzSlack {
			t.Fatalf("%d bytes of Produce version %d become %d", len(body), c.version, got)
		}
		theirs := at(c.version, kmsg.NewPtrProduceRequest())
		if err != nil || theirs.ReadFrom(body) != nil {
			return
		}
		if len(theirs.Topics) != len(c.topics) {
			t.Fatalf("%d topics, kmsg has %d", len(c.topics), len(theirs.Topics))
		}
		for i := range theirs.Topics {
			span := c.topics[i]
			if len(theirs.Topics[i].Partitions) != span.end-span.start {
				t.Fatalf("topic %d has %d partitions, kmsg has %d", i, span.end-span.start, len(theirs.Topics[i].Partitions))
			}
			for j, want := range theirs.Topics[i].Partitions {
				got := c.produce.Parts[span.start+j]
				if got.Partition != want.Partition || !bytes.Equal(got.Records, want.Records) {
					t.Fatalf("partition %d of topic %d is %d with %x, kmsg has %d with %x", j, i, got.Partition, got.Records, want.Partition, want.Records)
				}
			}
		}
	})
}

// FuzzFetchBody does the same for a Fetch.
func FuzzFetchBody(f *testing.F) {
	s := newScene(f, Options{})
	topic := brokertest.CreateTopic(f, s.broker, "orders", 1, nil)
	for version := int16(4); version <= 18; version++ {
		f.Add(byte(version), fetchRequest(version, "orders", topic.ID, 7).AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, version byte, body []byte) {
		if len(body) > 64<<10 {
			return
		}
		row := lookup(int16(kmsg.Fetch))
		c := newFetchCall()
		c.session, c.version, c.fetch = s.session.(*session), row.min+int16(version)%(row.max-row.min+1), s.broker.NewFetch()
		c.flexible = c.version >= row.flexibleMin
		defer c.onWritten()
		var err error
		if got := allocated(func() { err = c.decode(body) }); got > uint64(len(body))*decodedFactor+fuzzSlack {
			t.Fatalf("%d bytes of Fetch version %d become %d", len(body), c.version, got)
		}
		theirs := at(c.version, kmsg.NewPtrFetchRequest())
		if err != nil || theirs.ReadFrom(body) != nil {
			return
		}
		if len(theirs.Topics) != len(c.topics) {
			t.Fatalf("%d topics, kmsg has %d", len(c.topics), len(theirs.Topics))
		}
		for i := range theirs.Topics {
			span := c.topics[i]
			if len(theirs.Topics[i].Partitions) != span.end-span.start {
				t.Fatalf("topic %d has %d partitions, kmsg has %d", i, span.end-span.start, len(theirs.Topics[i].Partitions))
			}
			for j, want := range theirs.Topics[i].Partitions {
				got := c.fetch.Parts[span.start+j]
				if got.Partition != want.Partition || got.Offset != want.FetchOffset || got.BytesMax != int(max(want.PartitionMaxBytes, 0)) {
					t.Fatalf("partition %d of topic %d is %+v, kmsg has %+v", j, i, got, want)
				}
			}
		}
	})
}

// FuzzConversation sends any bytes as the stream of one connection, cut into frames as they say: sound requests,
// spoiled ones, one behind the other. Whatever comes, the frames are given back, and no handler panics.
func FuzzConversation(f *testing.F) {
	s := newScene(f, Options{})
	topic := brokertest.CreateTopic(f, s.broker, "orders", 1, nil)
	var sound []byte
	for _, request := range []kmsg.Request{
		at(3, kmsg.NewPtrApiVersionsRequest()), at(9, kmsg.NewPtrMetadataRequest()), produceRequest(9, "orders", topic.ID, batch(record.CodecNone, "a")),
		fetchRequest(12, "orders", topic.ID, 0), at(7, kmsg.NewPtrListOffsetsRequest()), at(4, kmsg.NewPtrDescribeConfigsRequest()),
	} {
		sound = append(sound, s.frame(request)...)
	}
	f.Add(sound)
	pool := s.pool
	f.Fuzz(func(t *testing.T, stream []byte) {
		if len(stream) > 64<<10 {
			return
		}
		c := &client{t: t, pool: pool, closed: make(chan error, 1)} // nobody reads the answers
		c.session = s.protocol.NewSession(c)
		for len(stream) >= lengthBytes {
			size := int(int32(binary.BigEndian.Uint32(stream)))
			if _, err := c.session.FrameBytes(stream[:lengthBytes]); err != nil || size > len(stream)-lengthBytes {
				break
			}
			frame := stream[: size+lengthBytes : size+lengthBytes]
			stream = stream[size+lengthBytes:]
			if c.receive(frame) != nil {
				break
			}
		}
		c.session.Closed(errPanicked)
		if got := s.protocol.metrics.Panics.Load(); got != 0 {
			t.Fatalf("%d panics", got)
		}
	})
}
