package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker/brokertest"
	"ringlog/frontend"
	"ringlog/record"
)

// hostileBytesMax is what a request of some hundred bytes may make the broker allocate
// (kafka-protocol-rs#152: 8 bytes cost 3.6 GiB there). Others allocate beside it, so it is not less.
const hostileBytesMax = 1 << 20

// header is a frame with an empty body, whatever its API.
func header(key, version int16, body []byte) []byte {
	frame := make([]byte, 4, 64+len(body))
	frame = binary.BigEndian.AppendUint16(frame, uint16(key))
	frame = binary.BigEndian.AppendUint16(frame, uint16(version))
	frame = binary.BigEndian.AppendUint32(frame, 1)
	frame = binary.BigEndian.AppendUint16(frame, 0xffff)
	if flexible(key, version) {
		frame = append(frame, 0)
	}
	frame = append(frame, body...)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

// Reliability section 4, items 1 to 3: counts are bounded by the bytes that are
// there, in every API and version, at every place where a count may stand.
func TestHostileCountsAllocateLittle(t *testing.T) {
	s := newScene(t, Options{})
	s.replies = nil           // nobody reads the answers to what happens to be sound
	body := make([]byte, 400) // few enough to be decoded in Receive
	for _, row := range registry {
		if row == nil {
			continue
		}
		for version := row.min; version <= row.max; version++ {
			for at := 0; at < 40; at++ {
				for _, count := range [][]byte{{0x7f, 0xff, 0xff, 0xff}, {0xff, 0xff, 0xff, 0xff, 0x07}, {0x00, 0x0f, 0xff, 0xff}, {0xff, 0x07}} {
					clear(body)
					copy(body[at:], count)
					frame := header(int16(row.key), version, body)
					s.idle() // what was sound before is answered on a goroutine, and must not count here
					if got := allocated(func() { _ = s.receive(frame) }); got > hostileBytesMax {
						t.Fatalf("%s version %d with %x at byte %d of the body allocates %d bytes", row.key.Name(), version, count, at, got)
					}
				}
			}
		}
	}
}

// idle waits until every request is answered.
func (c *client) idle() {
	c.t.Helper()
	for began := time.Now(); c.Pending() > 0; runtime.Gosched() {
		if time.Since(began) > patience {
			c.t.Fatalf("%d requests are not answered", c.Pending())
		}
	}
}

// allocated returns the bytes that are allocated while f runs. Small objects are
// counted late, in steps of their allocator's caches, which is far below the limits here.
func allocated(f func()) uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before := sample[0].Value.Uint64()
	f()
	metrics.Read(sample)
	return sample[0].Value.Uint64() - before
}

// Reliability section 4, item 1: the length is checked before there is memory for it.
func TestFrameLengthsAreCheckedFirst(t *testing.T) {
	s := newScene(t, Options{FrameBytesMax: 1 << 20})
	for _, c := range []struct {
		size int32
		want error
	}{
		{-1, frontend.ErrMalformed},
		{math.MinInt32, frontend.ErrMalformed},
		{0, frontend.ErrMalformed},
		{9, frontend.ErrMalformed},
		{1<<20 + 1, frontend.ErrFrameTooLarge},
		{math.MaxInt32, frontend.ErrFrameTooLarge},
		{10, nil},
		{1 << 20, nil},
	} {
		size, err := s.session.FrameBytes(binary.BigEndian.AppendUint32(nil, uint32(c.size)))
		if !errors.Is(err, c.want) || err == nil && size != int(c.size)+4 {
			t.Errorf("length %d: %d bytes, error %v, want %v", c.size, size, err, c.want)
		}
	}
}

// Bodies that kmsg decodes are small; Produce and Fetch have partition limits.
func TestLargeControlBodiesAreRefusedUnread(t *testing.T) {
	s := newScene(t, Options{})
	frame := header(int16(kmsg.Metadata), 12, make([]byte, controlBodyBytesMax+1))
	if got := allocated(func() {
		if err := s.receive(frame); !errors.Is(err, frontend.ErrMalformed) {
			t.Errorf("a Metadata of %d bytes: %v", len(frame), err)
		}
	}); got > hostileBytesMax {
		t.Errorf("refusing it allocates %d bytes", got)
	}
}

// Reliability section 4, item 13: answers stay in proportion. A request that
// names one large topic a hundred thousand times is answered once.
func TestRepeatedNamesAreAnsweredOnce(t *testing.T) {
	s := newScene(t, Options{})
	brokertest.CreateTopic(t, s.broker, "t", 1000, nil)
	describe := at(12, kmsg.NewPtrMetadataRequest())
	configs := at(4, kmsg.NewPtrDescribeConfigsRequest())
	name := "t"
	for range 100_000 {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &name
		describe.Topics = append(describe.Topics, topic)
		resource := kmsg.NewDescribeConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, name
		configs.Resources = append(configs.Resources, resource)
	}
	if got := ask[*kmsg.MetadataResponse](s.client, describe); len(got.Topics) != 1 {
		t.Errorf("Metadata answers %d topics", len(got.Topics))
	}
	if got := ask[*kmsg.DescribeConfigsResponse](s.client, configs); len(got.Resources) != 1 {
		t.Errorf("DescribeConfigs answers %d resources", len(got.Resources))
	}
}

// A request that is cut short anywhere, or has bytes too many, closes its connection and
// nothing else; its frame is given back.
func TestRequestsCutShortAreMalformed(t *testing.T) {
	s := newScene(t, Options{})
	topic := brokertest.CreateTopic(t, s.broker, "orders", 1, nil)
	for _, request := range []kmsg.Request{
		produceRequest(8, "orders", [16]byte{}, batch(record.CodecNone, "a")),
		produceRequest(13, "", topic.ID, batch(record.CodecNone, "a")),
		fetchRequest(11, "orders", [16]byte{}, 0),
		fetchRequest(18, "", topic.ID, 0),
	} {
		frame := s.frame(request)
		for size := len(frame) - 1; size > 16; size-- {
			short := append([]byte{}, frame[:size]...)
			binary.BigEndian.PutUint32(short, uint32(size-4))
			if err := s.receive(short); err == nil {
				t.Errorf("%T version %d cut to %d of %d bytes is accepted", request, request.GetVersion(), size, len(frame))
			}
		}
		long := append(append([]byte{}, frame...), 0)
		binary.BigEndian.PutUint32(long, uint32(len(long)-4))
		if err := s.receive(long); err == nil {
			t.Errorf("%T version %d with a byte too many is accepted", request, request.GetVersion())
		}
	}
	if in := s.pool.InUseBytes(); in != 0 {
		t.Errorf("%d bytes of frames were not released", in)
	}
	if got := s.protocol.metrics.Malformed.Load(); got == 0 {
		t.Error("nothing was counted as malformed")
	}
}

// A fault of ours costs one connection, is counted, and names the request.
func TestAPanicCostsOneConnection(t *testing.T) {
	p := New(Options{Broker: newScene(t, Options{}).broker})
	c := newClient(t, p)
	s := c.session.(*session)
	row := *lookup(int16(kmsg.DescribeCluster))
	row.handle = func(context.Context, *call) kmsg.Response { panic("a fault") }
	s.start(&request{requestHeader: requestHeader{version: 1}, api: &row}, at(1, kmsg.NewPtrDescribeClusterRequest()), nil)
	if reason := <-c.closed; !errors.Is(reason, errPanicked) || fmt.Sprint(reason) != "kafka: internal error in DescribeCluster version 1" {
		t.Errorf("closed by %v", reason)
	}
	if got := p.metrics.Panics.Load(); got != 1 {
		t.Errorf("%d panics counted", got)
	}
}

// FuzzFrame feeds any bytes as a frame: no panic, no leak of the frame, and what it allocates
// stays in proportion.
func FuzzFrame(f *testing.F) {
	for _, row := range registry {
		if row != nil {
			f.Add(header(int16(row.key), row.min, nil)[4:])
			f.Add(header(int16(row.key), row.max, make([]byte, 64))[4:])
		}
	}
	s := newScene(f, Options{})
	topic := brokertest.CreateTopic(f, s.broker, "orders", 1, nil)
	f.Add(s.frame(produceRequest(8, "orders", [16]byte{}, batch(record.CodecGzip, "a")))[4:])
	f.Add(s.frame(produceRequest(13, "", topic.ID, batch(record.CodecNone, "a")))[4:])
	f.Add(s.frame(fetchRequest(4, "orders", [16]byte{}, 0))[4:])
	f.Add(s.frame(fetchRequest(18, "", topic.ID, 0))[4:])
	pool := s.pool
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 64<<10 {
			return
		}
		frame := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
		frame = append(frame, data...)
		c := &client{t: t, pool: pool, closed: make(chan error, 1)}
		c.session = s.protocol.NewSession(c)
		defer func() {
			c.session.Closed(errors.New("the input ends"))
			if got := s.protocol.metrics.Panics.Load(); got != 0 {
				t.Fatalf("%d panics", got)
			}
		}()
		if got := allocated(func() { _ = c.receive(frame) }); got > 16<<20 {
			t.Fatalf("%d bytes of request allocate %d", len(frame), got)
		}
	})
}
