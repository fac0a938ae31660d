package kafka

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"ringlog/broker"
)

// The decoders written by hand read what kmsg writes, in every version
// (conventions 31).
func TestProduceIsDecodedAsKmsgEncodesIt(t *testing.T) {
	s := newScene(t, Options{})
	rapid.Check(t, func(t *rapid.T) {
		asked := at(int16(rapid.IntRange(0, 13).Draw(t, "version")), kmsg.NewPtrProduceRequest())
		asked.Acks = rapid.SampledFrom([]int16{-1, 0, 1}).Draw(t, "acks")
		var want []string
		for range rapid.IntRange(0, 4).Draw(t, "topics") {
			topic := kmsg.NewProduceRequestTopic()
			topic.Topic, topic.TopicID = drawName(t), drawID(t)
			for range rapid.IntRange(0, 4).Draw(t, "partitions") {
				partition := kmsg.NewProduceRequestTopicPartition()
				partition.Partition = rapid.Int32().Draw(t, "partition")
				partition.Records = rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "records")
				drawTags(t, &partition.UnknownTags, asked.IsFlexible())
				topic.Partitions = append(topic.Partitions, partition)
				want = append(want, describePart(asked.Version >= 13, topic.Topic, topic.TopicID, partition.Partition, partition.Records))
			}
			drawTags(t, &topic.UnknownTags, asked.IsFlexible())
			asked.Topics = append(asked.Topics, topic)
		}
		drawTags(t, &asked.UnknownTags, asked.IsFlexible())

		c := newProduceCall()
		c.session, c.version, c.flexible = s.session.(*session), asked.Version, asked.IsFlexible()
		c.produce = s.broker.NewProduce()
		defer c.release()
		if err := c.decode(asked.AppendTo(nil)); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, span := range c.topics {
			for _, part := range c.produce.Parts[span.start:span.end] {
				got = append(got, describePart(asked.Version >= 13, span.name, span.id, part.Partition, part.Records))
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || c.produce.Acks != broker.Acks(asked.Acks) {
			t.Fatalf("decoded %v with acks %d, want %v with %d", got, c.produce.Acks, want, asked.Acks)
		}
	})
}

func TestFetchIsDecodedAsKmsgEncodesIt(t *testing.T) {
	s := newScene(t, Options{})
	rapid.Check(t, func(t *rapid.T) {
		asked := at(int16(rapid.IntRange(4, 18).Draw(t, "version")), kmsg.NewPtrFetchRequest())
		version := asked.Version
		asked.MaxBytes = rapid.Int32Range(0, 1<<30).Draw(t, "max bytes")
		asked.MinBytes = rapid.Int32Range(0, 1<<30).Draw(t, "min bytes")
		asked.MaxWaitMillis = rapid.Int32Range(0, 1<<30).Draw(t, "max wait")
		asked.Rack = drawName(t)
		replica := rapid.SampledFrom([]int32{-1, -1, 3}).Draw(t, "replica")
		if version <= 14 {
			asked.ReplicaID = replica
		} else {
			asked.ReplicaState.ID = replica
		}
		var want []string
		for range rapid.IntRange(0, 4).Draw(t, "topics") {
			topic := kmsg.NewFetchRequestTopic()
			topic.Topic, topic.TopicID = drawName(t), drawID(t)
			for range rapid.IntRange(0, 4).Draw(t, "partitions") {
				p := kmsg.NewFetchRequestTopicPartition()
				p.Partition = rapid.Int32().Draw(t, "partition")
				p.FetchOffset = rapid.Int64().Draw(t, "offset")
				p.PartitionMaxBytes = rapid.Int32Range(0, 1<<30).Draw(t, "partition max bytes")
				p.CurrentLeaderEpoch, p.LastFetchedEpoch = -1, -1
				if version >= 9 {
					p.CurrentLeaderEpoch = rapid.Int32().Draw(t, "leader epoch")
				}
				if version >= 12 {
					p.LastFetchedEpoch = rapid.Int32().Draw(t, "last fetched epoch")
				}
				drawTags(t, &p.UnknownTags, asked.IsFlexible())
				topic.Partitions = append(topic.Partitions, p)
				want = append(want, describePart(version >= 13, topic.Topic, topic.TopicID, p.Partition, nil)+
					fmt.Sprint(p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch, p.LastFetchedEpoch))
			}
			asked.Topics = append(asked.Topics, topic)
		}
		if version >= 7 {
			forgotten := kmsg.NewFetchRequestForgottenTopic()
			forgotten.Topic, forgotten.TopicID, forgotten.Partitions = drawName(t), drawID(t), []int32{1, 2, 3}
			asked.ForgottenTopics = append(asked.ForgottenTopics, forgotten)
		}

		c := newFetchCall()
		c.session, c.version, c.flexible = s.session.(*session), version, asked.IsFlexible()
		c.fetch = s.broker.NewFetch()
		defer c.onWritten()
		if err := c.decode(asked.AppendTo(nil)); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, span := range c.topics {
			for _, part := range c.fetch.Parts[span.start:span.end] {
				got = append(got, describePart(version >= 13, span.name, span.id, part.Partition, nil)+
					fmt.Sprint(part.Offset, part.BytesMax, part.LeaderEpoch, part.LastFetchedEpoch))
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("decoded %v, want %v", got, want)
		}
		if c.fetch.BytesMax != int(asked.MaxBytes) || c.fetch.BytesMin != int(asked.MinBytes) || c.fetch.Wait.Milliseconds() != int64(asked.MaxWaitMillis) || c.replicaID != replica {
			t.Fatalf("limits %d, %d, %v and replica %d; want %d, %d, %d ms, %d", c.fetch.BytesMax, c.fetch.BytesMin, c.fetch.Wait, c.replicaID,
				asked.MaxBytes, asked.MinBytes, asked.MaxWaitMillis, replica)
		}
	})
}

func drawName(t *rapid.T) string { return rapid.StringN(0, 20, 300).Draw(t, "name") }

func drawID(t *rapid.T) (id [16]byte) {
	copy(id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
	return id
}

// drawTags adds tagged fields that this program has never heard of.
func drawTags(t *rapid.T, tags *kmsg.Tags, flexible bool) {
	if flexible && rapid.Bool().Draw(t, "tagged") {
		tags.Set(77, rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "tag"))
		tags.Set(9000, nil)
	}
}

func describePart(byID bool, name string, id [16]byte, partition int32, records []byte) string {
	if byID {
		name = fmt.Sprintf("%x", id)
	}
	return fmt.Sprintf("%s/%d %x;", name, partition, bytes.Clone(records))
}
