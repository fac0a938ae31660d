package perf_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/record"
)

// fakeBroker is a Kafka broker of one process and no disk, just large enough
// for the load generator: it keeps batches in memory and can be told to refuse, to
// stall and to answer in unusual ways.
type fakeBroker struct {
	t        *testing.T
	listener net.Listener
	host     string
	port     int32
	serving  sync.WaitGroup

	// onProduce, when set, is called before a produce is answered.
	onProduce func(number int)
	// hangUpAt is the number of a produce at which the connection is closed; 0: none.
	hangUpAt int
	// hangUpOnWaits closes connections that ask to wait for records for long.
	hangUpOnWaits bool
	// refuse gives a produce's error code and message; nil accepts all.
	refuse func(number int) (code int16, message *string)

	mu struct {
		sync.Mutex
		topics   map[string]*fakeTopic
		produces int
		acks     map[int16]int
	}
}

type fakeTopic struct {
	flushMessages string
	partitions    [][]record.Batch
	next          []int64
}

func startFakeBroker(t *testing.T) *fakeBroker {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	b := &fakeBroker{t: t, listener: listener, host: host, port: int32(number)}
	b.mu.topics, b.mu.acks = make(map[string]*fakeTopic), make(map[int16]int)
	b.serving.Go(b.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		b.serving.Wait()
	})
	return b
}

func (b *fakeBroker) address() string { return b.listener.Addr().String() }

func (b *fakeBroker) addTopic(name, flushMessages string, partitions int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.topics[name] = &fakeTopic{flushMessages: flushMessages, partitions: make([][]record.Batch, partitions), next: make([]int64, partitions)}
}

// stored returns the batches of a partition, checked.
func (b *fakeBroker) stored(topic string, partition int) []record.Batch {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	batches := b.mu.topics[topic].partitions[partition]
	for i, batch := range batches {
		if err := batch.Check(); err != nil {
			b.t.Fatalf("batch %d of %s-%d: %v", i, topic, partition, err)
		}
	}
	return batches
}

func (b *fakeBroker) produced() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.produces
}

func (b *fakeBroker) accept() {
	for {
		socket, err := b.listener.Accept()
		if err != nil {
			return
		}
		b.serving.Go(func() {
			defer socket.Close()
			if err := b.serve(socket); err != nil && err != io.EOF {
				b.t.Logf("fake broker: %v", err) // a generator that gives up resets its connections
			}
		})
	}
}

func (b *fakeBroker) serve(socket net.Conn) error {
	for {
		var length [4]byte
		if _, err := io.ReadFull(socket, length[:]); err != nil {
			return err
		}
		frame := make([]byte, binary.BigEndian.Uint32(length[:]))
		if _, err := io.ReadFull(socket, frame); err != nil {
			return err
		}
		request := kmsg.RequestForKey(int16(binary.BigEndian.Uint16(frame)))
		if request == nil {
			return fmt.Errorf("request with key %d", binary.BigEndian.Uint16(frame))
		}
		request.SetVersion(int16(binary.BigEndian.Uint16(frame[2:])))
		body := frame[8:]
		body = body[2+binary.BigEndian.Uint16(body):] // client id
		if request.IsFlexible() {
			body = body[1:] // no tagged fields
		}
		if err := request.ReadFrom(body); err != nil {
			return fmt.Errorf("%T version %d: %w", request, request.GetVersion(), err)
		}
		if fetch, ok := request.(*kmsg.FetchRequest); ok && b.hangUpOnWaits && fetch.MaxWaitMillis > 60_000 {
			return fmt.Errorf("hanging up on a fetch that waits for %d ms", fetch.MaxWaitMillis)
		}
		response := b.handle(request)
		if response == nil {
			continue
		}
		if b.hangUpAt > 0 && b.produced() >= b.hangUpAt {
			return fmt.Errorf("hanging up after %d produces", b.hangUpAt)
		}
		reply := append(make([]byte, 4), frame[4:8]...)
		if response.IsFlexible() && response.Key() != int16(kmsg.ApiVersions) {
			reply = append(reply, 0)
		}
		reply = response.AppendTo(reply)
		binary.BigEndian.PutUint32(reply, uint32(len(reply)-4))
		if _, err := socket.Write(reply); err != nil {
			return err
		}
	}
}

func (b *fakeBroker) handle(request kmsg.Request) kmsg.Response {
	response := request.ResponseKind()
	switch request := request.(type) {
	case *kmsg.ApiVersionsRequest:
		response := response.(*kmsg.ApiVersionsResponse)
		for _, k := range []struct{ key, lowest, highest int16 }{
			{0, 3, 11}, {1, 4, 12}, {2, 1, 7}, {3, 1, 12}, {18, 0, 3}, {19, 2, 7}, {32, 1, 4},
		} {
			api := kmsg.NewApiVersionsResponseApiKey()
			api.ApiKey, api.MinVersion, api.MaxVersion = k.key, k.lowest, k.highest
			response.ApiKeys = append(response.ApiKeys, api)
		}
	case *kmsg.MetadataRequest:
		b.metadata(request, response.(*kmsg.MetadataResponse))
	case *kmsg.CreateTopicsRequest:
		for _, t := range request.Topics {
			b.addTopic(t.Topic, *t.Configs[0].Value, int(t.NumPartitions))
			created := kmsg.NewCreateTopicsResponseTopic()
			created.Topic = t.Topic
			response.(*kmsg.CreateTopicsResponse).Topics = append(response.(*kmsg.CreateTopicsResponse).Topics, created)
		}
	case *kmsg.DescribeConfigsRequest:
		b.describeConfigs(request, response.(*kmsg.DescribeConfigsResponse))
	case *kmsg.ListOffsetsRequest:
		b.listOffsets(request, response.(*kmsg.ListOffsetsResponse))
	case *kmsg.ProduceRequest:
		b.produce(request, response.(*kmsg.ProduceResponse))
		if request.Acks == 0 {
			return nil
		}
	case *kmsg.FetchRequest:
		b.fetch(request, response.(*kmsg.FetchResponse))
		if request.MaxWaitMillis > 60_000 && len(response.(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches) == 0 {
			return nil // the wait is longer than any test
		}
	}
	return response
}

func (b *fakeBroker) metadata(request *kmsg.MetadataRequest, response *kmsg.MetadataResponse) {
	broker := kmsg.NewMetadataResponseBroker()
	broker.NodeID, broker.Host, broker.Port = 1, b.host, b.port
	response.Brokers, response.ControllerID = append(response.Brokers, broker), 1
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, asked := range request.Topics {
		t := kmsg.NewMetadataResponseTopic()
		t.Topic = asked.Topic
		topic := b.mu.topics[*asked.Topic]
		if topic == nil {
			t.ErrorCode = 3 // UNKNOWN_TOPIC_OR_PARTITION
		} else {
			for i := range topic.partitions {
				p := kmsg.NewMetadataResponseTopicPartition()
				p.Partition, p.Leader = int32(i), 1
				t.Partitions = append(t.Partitions, p)
			}
		}
		response.Topics = append(response.Topics, t)
	}
}

func (b *fakeBroker) describeConfigs(request *kmsg.DescribeConfigsRequest, response *kmsg.DescribeConfigsResponse) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, asked := range request.Resources {
		r := kmsg.NewDescribeConfigsResponseResource()
		r.ResourceName = asked.ResourceName
		c := kmsg.NewDescribeConfigsResponseResourceConfig()
		c.Name = "flush.messages"
		if topic := b.mu.topics[asked.ResourceName]; topic.flushMessages != "" {
			c.Value = &topic.flushMessages
		}
		r.Configs = append(r.Configs, c)
		response.Resources = append(response.Resources, r)
	}
}

func (b *fakeBroker) listOffsets(request *kmsg.ListOffsetsRequest, response *kmsg.ListOffsetsResponse) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, asked := range request.Topics {
		t := kmsg.NewListOffsetsResponseTopic()
		t.Topic = asked.Topic
		for _, p := range asked.Partitions {
			found := kmsg.NewListOffsetsResponseTopicPartition()
			found.Partition, found.Offset = p.Partition, 0
			if p.Timestamp == -1 {
				found.Offset = b.mu.topics[asked.Topic].next[p.Partition]
			}
			t.Partitions = append(t.Partitions, found)
		}
		response.Topics = append(response.Topics, t)
	}
}

func (b *fakeBroker) produce(request *kmsg.ProduceRequest, response *kmsg.ProduceResponse) {
	b.mu.Lock()
	number := b.mu.produces
	b.mu.produces++
	b.mu.acks[request.Acks]++
	b.mu.Unlock()
	if b.onProduce != nil {
		b.onProduce(number)
	}
	asked := request.Topics[0]
	t := kmsg.NewProduceResponseTopic()
	t.Topic = asked.Topic
	p := kmsg.NewProduceResponseTopicPartition()
	p.Partition = asked.Partitions[0].Partition
	if b.refuse != nil {
		p.ErrorCode, p.ErrorMessage = b.refuse(number)
	}
	if p.ErrorCode == 0 {
		b.mu.Lock()
		topic := b.mu.topics[asked.Topic]
		batch := record.Batch(append([]byte(nil), asked.Partitions[0].Records...))
		batch.SetBaseOffset(topic.next[p.Partition])
		p.BaseOffset = batch.BaseOffset()
		topic.next[p.Partition] = batch.LastOffset() + 1
		topic.partitions[p.Partition] = append(topic.partitions[p.Partition], batch)
		b.mu.Unlock()
	}
	t.Partitions = append(t.Partitions, p)
	response.Topics = append(response.Topics, t)
}

// fetch answers with what fits, cutting the last batch off in the middle.
func (b *fakeBroker) fetch(request *kmsg.FetchRequest, response *kmsg.FetchResponse) {
	b.mu.Lock()
	defer b.mu.Unlock()
	asked := request.Topics[0]
	t := kmsg.NewFetchResponseTopic()
	t.Topic = asked.Topic
	for _, wanted := range asked.Partitions {
		p := kmsg.NewFetchResponseTopicPartition()
		p.Partition = wanted.Partition
		topic := b.mu.topics[asked.Topic]
		p.HighWatermark = topic.next[wanted.Partition]
		for _, batch := range topic.partitions[wanted.Partition] {
			if batch.LastOffset() < wanted.FetchOffset {
				continue
			}
			room := int(wanted.PartitionMaxBytes) - len(p.RecordBatches)
			if len(p.RecordBatches) > 0 && len(batch) > room {
				p.RecordBatches = append(p.RecordBatches, batch[:max(room, 0)]...)
				break
			}
			p.RecordBatches = append(p.RecordBatches, batch...)
		}
		t.Partitions = append(t.Partitions, p)
	}
	response.Topics = append(response.Topics, t)
}
