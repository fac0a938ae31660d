package raftctl

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"ringlog/meta"
)

// Whatever is proposed and wherever the process stops: after a restart the image
// is the one that the same commands, applied by hand, make.
func TestRestartsAnywhereLeadToTheSameImage(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		dir := t.TempDir()
		options := testOptions()
		options.SnapshotLogBytes = rapid.SampledFrom([]int64{1, 1 << 10, 1 << 20}).Draw(r, "snapshot bytes")
		options.Create = true
		open := func() *Controller {
			c, err := Open(t.Context(), dir, options)
			if err != nil {
				r.Fatal(err)
			}
			options.Create = false
			if err := c.Ready(t.Context()); err != nil {
				r.Fatal(err)
			}
			return c
		}
		c := open()
		defer func() { c.Close() }()
		model := c.Image()
		source := rand.NewChaCha8([32]byte{byte(rapid.Byte().Draw(r, "seed"))})
		for n := range rapid.IntRange(1, 12).Draw(r, "commands") {
			if rapid.IntRange(0, 4).Draw(r, "restart") == 0 {
				c.Close()
				c = open()
			}
			command := drawCommand(r, source, model, n)
			result, refusal := c.Propose(t.Context(), command)
			// The broker epoch is the index of the command, so the model needs the same one.
			next, _, wanted, wantedRefusal := meta.Apply(model, c.Image().Index, command)
			if fmt.Sprint(refusal) != fmt.Sprint(wantedRefusal) {
				r.Fatalf("%+v: answered %v, want %v", command, refusal, wantedRefusal)
			}
			if block, ok := result.(meta.AllocateProducerIDsResult); ok && block != wanted {
				r.Fatalf("block %+v, want %+v", block, wanted)
			}
			model = next
		}
		c.Close()
		c = open()
		if string(snapshotOf(model)) != string(snapshotOf(c.Image().WithIndex(model.Index))) {
			r.Fatalf("the image differs after the last restart: %d topics, want %d", c.Image().TopicCount(), model.TopicCount())
		}
	})
}

func drawCommand(r *rapid.T, source *rand.ChaCha8, image *meta.Image, n int) meta.Command {
	switch rapid.IntRange(0, 6).Draw(r, "kind") {
	case 0:
		return meta.StartBroker{ID: 1, Host: "h", Port: int32(n), LogsEpochMax: rapid.Int32Range(-1, 9).Draw(r, "logs epoch")}
	case 1, 2:
		var create meta.CreateTopics
		for range rapid.IntRange(1, 3).Draw(r, "topics") {
			topic := meta.NewTopic{Name: rapid.SampledFrom([]string{"a", "b", "c", "a.b", "a_b"}).Draw(r, "name"), ReplicationFactor: 1}
			if err := topic.Draw(source, rapid.IntRange(1, 3).Draw(r, "partitions")); err != nil {
				r.Fatal(err)
			}
			create.Topics = append(create.Topics, topic)
		}
		return create
	case 3:
		var remove meta.DeleteTopics
		for topic := range image.Topics() {
			if rapid.Bool().Draw(r, "delete") {
				remove.IDs = append(remove.IDs, topic.ID)
			}
		}
		return remove
	case 4:
		alter := meta.AlterConfigs{Resources: []meta.ConfigAlteration{{Scope: meta.ConfigOfBroker, Broker: rapid.Int32Range(meta.EveryBroker, 1).Draw(r, "broker"),
			Changes: []meta.ConfigChange{{Name: "log.retention.ms", Op: meta.ConfigOp(rapid.IntRange(0, 1).Draw(r, "op")), Value: fmt.Sprint(n)}}}}}
		for topic := range image.Topics() {
			alter.Resources = append(alter.Resources, meta.ConfigAlteration{Scope: meta.ConfigOfTopic, Topic: topic.ID,
				Changes: []meta.ConfigChange{{Name: "cleanup.policy", Op: meta.ConfigAppend, Value: fmt.Sprint(n), Base: "delete"}}})
		}
		return alter
	case 5:
		var more meta.CreatePartitions
		for topic := range image.Topics() {
			asked := meta.MorePartitions{Topic: topic.ID, Count: rapid.Int32Range(1, 6).Draw(r, "count")}
			if err := asked.Draw(source, len(topic.Partitions)); err != nil {
				r.Fatal(err)
			}
			more.Topics = append(more.Topics, asked)
		}
		return more
	}
	if broker, ok := image.Broker(1); ok {
		return meta.AllocateProducerIDs{Broker: 1, BrokerEpoch: broker.Epoch}
	}
	var remove meta.RemoveTombstones
	for _, tombstone := range image.Tombstones() {
		remove.LogIDs = append(remove.LogIDs, tombstone.LogID)
	}
	return remove
}
