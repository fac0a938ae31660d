package kafka

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"ringlog/broker/brokertest"
	"ringlog/engine"
	"ringlog/record"
	"ringlog/replica"
)

// longName is a topic whose compact length takes two bytes.
const longName = "a-topic-with-a-name-so-long-that-its-length-takes-another-byte-in-flexible-versions-which-is-from-one-hundred-and-twenty-seven-on"

// drawnEngine answers appends and reads with what a test has drawn, in their order.
type drawnEngine struct {
	*brokertest.Engine
	appends []engine.Append
	reads   []engine.ReadPart
}

func (e *drawnEngine) Append(group *engine.AppendGroup) {
	for i := range group.Appends {
		drawn, answer := e.appends[i], &group.Appends[i]
		answer.BaseOffset, answer.StartOffset, answer.Err = drawn.BaseOffset, drawn.StartOffset, drawn.Err
	}
	group.Owner.Consumed(group)
	group.Owner.Answered(group)
}

func (e *drawnEngine) Read(read *engine.Read) {
	for i := range read.Parts {
		drawn, answer := e.reads[i], &read.Parts[i]
		answer.Batches, answer.Bytes, answer.Frontiers, answer.Err = drawn.Batches, drawn.Bytes, drawn.Frontiers, drawn.Err
	}
	read.Done(read)
}

// outcome is what a partition was answered, or should have been.
type outcome struct {
	partition     int32
	code          int16
	first, second int64 // base and start offset of a produce; high watermark and start of a fetch
	bytes         string
	leader        int32 // named beside NOT_LEADER; -1 where the version or the answer has none
}

func newDrawnScene(t *testing.T) (*client, *drawnEngine, map[string][16]byte) {
	store := &drawnEngine{Engine: brokertest.NewEngine()}
	b, _ := brokertest.Start(t, store, brokertest.Options{})
	ids := make(map[string][16]byte)
	for _, name := range []string{"orders", longName} {
		ids[name] = brokertest.CreateTopic(t, b, name, 5, nil).ID
	}
	ids["missing"] = [16]byte{9, 9}
	return newClient(t, New(Options{Broker: b})), store, ids
}

// The versions from which a NOT_LEADER answer names the leader (KIP-951, KIP-595).
const (
	produceLeaderVersionMin = 10
	fetchLeaderVersionMin   = 12
)

// Conventions 31: whatever a produce comes to, in every version kmsg reads the answer that
// is written by hand, and would have written the same bytes.
func TestProduceAnswersAreWhatKmsgWrites(t *testing.T) {
	c, store, ids := newDrawnScene(t)
	good := batch(record.CodecNone, "a")
	var b record.Builder
	b.Reset(record.BuilderOptions{})
	for range 3 {
		b.Append(time.Now().Add(48*time.Hour).UnixMilli(), nil, []byte("too early"))
	}
	future, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		request := at(int16(rapid.IntRange(0, 13).Draw(t, "version")), kmsg.NewPtrProduceRequest())
		request.Acks = -1
		store.appends = store.appends[:0]
		var want []outcome
		for range rapid.IntRange(0, 4).Draw(t, "topics") {
			topic := kmsg.NewProduceRequestTopic()
			topic.Topic = rapid.SampledFrom([]string{"orders", "missing", longName}).Draw(t, "topic")
			topic.TopicID = ids[topic.Topic]
			for range rapid.IntRange(0, 4).Draw(t, "partitions") {
				partition := kmsg.NewProduceRequestTopicPartition()
				o := outcome{partition: int32(rapid.IntRange(0, 4).Draw(t, "partition")), first: -1, second: -1, leader: -1}
				partition.Partition, partition.Records = o.partition, bytes.Clone(good)
				switch outcomes := rapid.IntRange(0, 3).Draw(t, "outcome"); {
				case request.Version < produceVersionMin:
					o.code = 35
				case topic.Topic == "missing" && request.Version >= 13:
					o.code = 100
				case topic.Topic == "missing":
					o.code = 3
				case outcomes == 0:
					partition.Records, o.code = bytes.Clone(future), 32
				case outcomes == 1:
					failure := rapid.SampledFrom([]error{replica.ErrNotLeader, replica.ErrOutOfOrderSequence, engine.ErrNoSpace}).Draw(t, "failure")
					o.code = code(failure)
					if o.code == 6 && request.Version >= produceLeaderVersionMin {
						o.leader = brokertest.NodeID
					}
					store.appends = append(store.appends, engine.Append{BaseOffset: -1, Err: failure})
				default:
					o.first, o.second = rapid.Int64Min(0).Draw(t, "base offset"), rapid.Int64Min(0).Draw(t, "start offset")
					store.appends = append(store.appends, engine.Append{BaseOffset: o.first, StartOffset: o.second})
				}
				if request.Version < 5 {
					o.second = -1
				}
				topic.Partitions = append(topic.Partitions, partition)
				want = append(want, o)
			}
			request.Topics = append(request.Topics, topic)
		}
		answer := ask[*kmsg.ProduceResponse](c, request)
		var got []outcome
		for i, topic := range answer.Topics {
			if asked := request.Topics[i]; request.Version >= 13 && topic.TopicID != asked.TopicID || request.Version < 13 && topic.Topic != asked.Topic {
				t.Fatalf("topic %d is answered as %q %x", i, topic.Topic, topic.TopicID)
			}
			for _, p := range topic.Partitions {
				got = append(got, outcome{p.Partition, p.ErrorCode, p.BaseOffset, p.LogStartOffset, "", p.CurrentLeader.LeaderID})
				if request.Version >= 8 {
					if (p.ErrorCode == 0) != (p.ErrorMessage == nil) || (len(p.ErrorRecords) == 3) != (p.ErrorCode == 32) {
						t.Fatalf("code %d with message %v and %d records", p.ErrorCode, p.ErrorMessage, len(p.ErrorRecords))
					}
				}
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("version %d: answered %v, want %v", request.Version, got, want)
		}
	})
}

// The same for a fetch.
func TestFetchAnswersAreWhatKmsgWrites(t *testing.T) {
	c, store, ids := newDrawnScene(t)
	batches := [][]byte{batch(record.CodecNone, "a"), batch(record.CodecGzip, "b", "c"), batch(record.CodecLZ4, string(make([]byte, 20_000)))}
	rapid.Check(t, func(t *rapid.T) {
		request := at(int16(rapid.IntRange(4, 18).Draw(t, "version")), kmsg.NewPtrFetchRequest())
		request.MaxBytes = 1 << 20
		request.IsolationLevel = int8(rapid.IntRange(0, 1).Draw(t, "isolation"))
		store.reads = store.reads[:0]
		var want []outcome
		for range rapid.IntRange(0, 4).Draw(t, "topics") {
			topic := kmsg.NewFetchRequestTopic()
			topic.Topic = rapid.SampledFrom([]string{"orders", "missing", longName}).Draw(t, "topic")
			topic.TopicID = ids[topic.Topic]
			for range rapid.IntRange(0, 4).Draw(t, "partitions") {
				partition := kmsg.NewFetchRequestTopicPartition()
				partition.CurrentLeaderEpoch, partition.LastFetchedEpoch, partition.PartitionMaxBytes = -1, -1, 1<<20
				o := outcome{partition: int32(rapid.IntRange(0, 4).Draw(t, "partition")), first: -1, second: -1, leader: -1}
				partition.Partition = o.partition
				switch {
				case topic.Topic == "missing" && request.Version >= 13:
					o.code = 100
				case topic.Topic == "missing":
					o.code = 3
				case rapid.IntRange(0, 3).Draw(t, "outcome") == 0:
					failure := rapid.SampledFrom([]error{engine.ErrClosed, engine.ErrCorrupt, engine.ErrPoisoned}).Draw(t, "failure")
					o.code = code(failure)
					if o.code == 6 && request.Version >= fetchLeaderVersionMin {
						o.leader = brokertest.NodeID
					}
					store.reads = append(store.reads, engine.ReadPart{Err: failure})
				default:
					read := engine.ReadPart{}
					read.Frontiers.HighWatermark = rapid.Int64Min(0).Draw(t, "high watermark")
					read.Frontiers.Start = rapid.Int64Range(0, read.Frontiers.HighWatermark).Draw(t, "start")
					for range rapid.IntRange(0, 3).Draw(t, "batches") {
						read.Batches = append(read.Batches, rapid.SampledFrom(batches).Draw(t, "batch"))
					}
					o.bytes = string(bytes.Join(read.Batches, nil))
					read.Bytes = len(o.bytes)
					o.first, o.second = read.Frontiers.HighWatermark, read.Frontiers.Start
					store.reads = append(store.reads, read)
				}
				if request.Version < 5 {
					o.second = -1
				}
				topic.Partitions = append(topic.Partitions, partition)
				want = append(want, o)
			}
			request.Topics = append(request.Topics, topic)
		}
		answer := ask[*kmsg.FetchResponse](c, request)
		var got []outcome
		for i, topic := range answer.Topics {
			if asked := request.Topics[i]; request.Version >= 13 && topic.TopicID != asked.TopicID || request.Version < 13 && topic.Topic != asked.Topic {
				t.Fatalf("topic %d is answered as %q %x", i, topic.Topic, topic.TopicID)
			}
			for _, p := range topic.Partitions {
				o := outcome{p.Partition, p.ErrorCode, p.HighWatermark, p.LogStartOffset, string(p.RecordBatches), p.CurrentLeader.LeaderID}
				if p.ErrorCode != 0 {
					o.first, o.second = -1, -1
				}
				got = append(got, o)
				if p.RecordBatches == nil || (p.AbortedTransactions != nil) != (request.IsolationLevel == isolationReadCommitted) {
					t.Fatalf("records %v, aborted transactions %v", p.RecordBatches, p.AbortedTransactions)
				}
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("version %d: answered %v, want %v", request.Version, got, want)
		}
	})
}

// In every version: a request that ends anywhere before its end is refused, and its frame
// given back; so is one with a byte too many; and kmsg agrees that the whole one is sound.
func TestEveryVersionCutAnywhereIsMalformed(t *testing.T) {
	c, store, ids := newDrawnScene(t)
	c.replies = nil
	store.appends = make([]engine.Append, 8)
	store.reads = make([]engine.ReadPart, 8)
	names := []string{"orders", "missing", longName}
	requests := map[kmsg.Key]func(version int16) kmsg.Request{
		kmsg.Produce: func(version int16) kmsg.Request {
			r := produceRequest(version, names[0], ids[names[0]], batch(record.CodecNone, "a"))
			for _, name := range names[1:] {
				r.Topics = append(r.Topics, produceRequest(version, name, ids[name], batch(record.CodecNone, "b")).Topics...)
			}
			if r.IsFlexible() {
				r.Topics[0].Partitions[0].UnknownTags.Set(7, []byte("unknown"))
				r.Topics[1].UnknownTags.Set(300, nil)
				r.UnknownTags.Set(5, make([]byte, 3))
			}
			return r
		},
		kmsg.Fetch: func(version int16) kmsg.Request {
			r := fetchRequest(version, names[0], ids[names[0]], 0)
			for _, name := range names[1:] {
				r.Topics = append(r.Topics, fetchRequest(version, name, ids[name], 3).Topics...)
			}
			r.Rack = "rack-1"
			if version >= 7 {
				forgotten := kmsg.NewFetchRequestForgottenTopic()
				forgotten.Topic, forgotten.TopicID, forgotten.Partitions = names[2], ids[names[2]], []int32{1, 2}
				r.ForgottenTopics = append(r.ForgottenTopics, forgotten)
			}
			if r.IsFlexible() {
				r.Topics[0].Partitions[0].UnknownTags.Set(7, []byte("unknown"))
				r.UnknownTags.Set(500, make([]byte, 3))
			}
			return r
		},
	}
	for key, build := range requests {
		everyVersion(t, key, func(t *testing.T, version int16) {
			request := build(version)
			body := request.AppendTo(nil)
			frame := c.frame(request)
			if err := c.receive(frame); err != nil {
				t.Fatalf("the whole request: %v", err)
			}
			c.idle() // what waits behind another request is decoded later
			for size := range len(body) {
				short := bytes.Clone(frame[:len(frame)-len(body)+size])
				binary.BigEndian.PutUint32(short, uint32(len(short)-4))
				if err := c.receive(short); err == nil {
					t.Fatalf("a body cut to %d of %d bytes is accepted", size, len(body))
				}
			}
			long := append(bytes.Clone(frame), 0)
			binary.BigEndian.PutUint32(long, uint32(len(long)-4))
			if err := c.receive(long); err == nil {
				t.Fatal("a byte too many is accepted")
			}
		})
	}
	if in := c.pool.InUseBytes(); in != 0 {
		t.Errorf("%d bytes of frames were not released", in)
	}
}
