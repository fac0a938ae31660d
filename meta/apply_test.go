package meta

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// cluster is an image under test with the index of its log.
type cluster struct {
	t     testing.TB
	image *Image
}

// newCluster returns a formatted cluster whose brokers have started.
func newCluster(t testing.TB, brokers ...int32) *cluster {
	c := &cluster{t: t, image: NewImage()}
	c.must(FormatCluster{ClusterID: "cluster"})
	for _, id := range brokers {
		c.must(StartBroker{ID: id, Host: "127.0.0.1", Port: 9092, LogsEpochMax: -1})
	}
	return c
}

func (c *cluster) apply(command Command) (Result, error) {
	next, _, result, err := Apply(c.image, c.image.Index+1, command)
	c.image = next
	return result, err
}

func (c *cluster) must(command Command) Result {
	c.t.Helper()
	result, err := c.apply(command)
	if err != nil {
		c.t.Fatalf("%T: %v", command, err)
	}
	return result
}

// random is what ids are drawn from in tests: the same at every run.
func random(seed byte) *rand.ChaCha8 { return rand.NewChaCha8([32]byte{seed}) }

func topic(t testing.TB, name string, partitions int, factor int16) NewTopic {
	t.Helper()
	topic := NewTopic{Name: name, ReplicationFactor: factor}
	source := rand.NewChaCha8([32]byte(fmt.Appendf(nil, "%-32.32s", name)))
	if err := topic.Draw(source, partitions); err != nil {
		t.Fatal(err)
	}
	return topic
}

func (c *cluster) create(topics ...NewTopic) []TopicResult {
	c.t.Helper()
	return c.must(CreateTopics{Topics: topics}).(CreateTopicsResult).Topics
}

func (c *cluster) topic(name string) *Topic {
	c.t.Helper()
	found, ok := c.image.Topic(name)
	if !ok {
		c.t.Fatalf("there is no topic %s", name)
	}
	return found
}

func TestNothingHappensBeforeTheClusterIsFormatted(t *testing.T) {
	c := &cluster{t: t, image: NewImage()}
	if _, err := c.apply(StartBroker{ID: 1}); !errors.Is(err, ErrNotFormatted) {
		t.Errorf("got %v", err)
	}
	c.must(FormatCluster{ClusterID: "cluster"})
	if _, err := c.apply(FormatCluster{ClusterID: "other"}); !errors.Is(err, ErrAlreadyFormatted) {
		t.Errorf("a second format: got %v", err)
	}
	if c.image.ClusterID != "cluster" {
		t.Errorf("the cluster is %q now", c.image.ClusterID)
	}
}

// Scenario 44: producer ids are unique for ever; a zombie of a broker gets none.
func TestProducerIDBlocksFollowEachOther(t *testing.T) {
	c := newCluster(t, 1)
	first := c.must(StartBroker{ID: 1, LogsEpochMax: -1}).(StartBrokerResult)
	for n := range int64(3) {
		block := c.must(AllocateProducerIDs{Broker: 1, BrokerEpoch: first.BrokerEpoch}).(AllocateProducerIDsResult)
		if block.First != n*ProducerIDBlockSize || block.Count != ProducerIDBlockSize {
			t.Errorf("block %d is %+v", n, block)
		}
	}
	c.must(StartBroker{ID: 1, LogsEpochMax: -1})
	if _, err := c.apply(AllocateProducerIDs{Broker: 1, BrokerEpoch: first.BrokerEpoch}); !errors.Is(err, ErrStaleBroker) {
		t.Errorf("the broker's earlier start: got %v", err)
	}
	if _, err := c.apply(AllocateProducerIDs{Broker: 2}); !errors.Is(err, ErrUnknownBroker) {
		t.Errorf("an unknown broker: got %v", err)
	}
	c.image.nextProducerID = math.MaxInt64 - 10
	if _, err := c.apply(AllocateProducerIDs{Broker: 1, BrokerEpoch: c.image.brokers[0].Epoch}); !errors.Is(err, ErrProducerIDsExhausted) {
		t.Errorf("at the end of all ids: got %v", err)
	}
}

// Architecture rule 11: one record grants the whole broker an epoch above
// metadata and logs; partitions of other leaders keep theirs.
func TestStartBrokerGrantsOneEpochAboveAllThatItLeads(t *testing.T) {
	c := newCluster(t, 1, 2)
	c.create(topic(t, "orders", 4, 1))
	granted := c.must(StartBroker{ID: 1, Host: "broker-1", Port: 9093, LogsEpochMax: 6}).(StartBrokerResult)
	if granted.LeaderEpoch != 7 {
		t.Errorf("granted %d, want 7", granted.LeaderEpoch)
	}
	for _, p := range c.topic("orders").Partitions {
		want := int32(0)
		if p.Leader == 1 {
			want = 7
		}
		if p.LeaderEpoch != want {
			t.Errorf("partition %d of leader %d is at epoch %d, want %d", p.ID, p.Leader, p.LeaderEpoch, want)
		}
	}
	if again := c.must(StartBroker{ID: 1, LogsEpochMax: -1}).(StartBrokerResult); again.LeaderEpoch != 8 || again.BrokerEpoch <= granted.BrokerEpoch {
		t.Errorf("the next start got %+v after %+v", again, granted)
	}
	if _, err := c.apply(StartBroker{ID: 1, LogsEpochMax: math.MaxInt32}); !errors.Is(err, ErrEpochsExhausted) {
		t.Errorf("logs at the last epoch: got %v", err)
	}
	if _, err := c.apply(StartBroker{ID: -1}); !errors.Is(err, ErrInvalidRequest) {
		t.Errorf("a negative id: got %v", err)
	}
}

// A broker that slept through a deletion must still be told of it: the tombstone
// waits for the last of them.
func TestTombstonesWaitForEveryReplica(t *testing.T) {
	c := newCluster(t, 1, 2)
	c.create(topic(t, "orders", 1, 2))
	orders := c.topic("orders")
	id := orders.Partitions[0].LogID
	unknown := TopicID{9}
	results := c.must(DeleteTopics{IDs: []TopicID{unknown, orders.ID, orders.ID}}).(DeleteTopicsResult).Topics
	if !errors.Is(results[0].Err, ErrUnknownTopic) || results[1].Err != nil || results[1].Topic != orders || !errors.Is(results[2].Err, ErrUnknownTopic) {
		t.Errorf("deleting answered %+v", results)
	}
	if _, there := c.image.Topic("orders"); there || c.image.PartitionCount() != 0 || c.image.TopicCount() != 0 {
		t.Error("the topic is still there")
	}
	for _, step := range []struct {
		broker  int32
		removed int
		left    bool
	}{{2, 0, true}, {2, 0, true}, {3, 0, true}, {1, 1, false}, {1, 0, false}} {
		result := c.must(RemoveTombstones{Broker: step.broker, LogIDs: []LogID{id, {1}}}).(RemoveTombstonesResult)
		if result.Removed != step.removed || c.image.Tombstoned(id) != step.left {
			t.Errorf("after broker %d: %d removed, tombstone there: %t", step.broker, result.Removed, c.image.Tombstoned(id))
		}
	}
	c.create(topic(t, "orders", 1, 2)) // the name is free again
}

func TestLeadersGoRoundAndReplicasSpread(t *testing.T) {
	c := newCluster(t, 1, 2, 3, 4)
	leads, follows := map[int32]int{}, map[[2]int32]int{}
	for n := range 6 {
		c.create(topic(t, fmt.Sprintf("topic-%d", n), 8, 3))
	}
	for topic := range c.image.Topics() {
		for _, p := range topic.Partitions {
			if p.Leader != p.Replicas[0] || !slices.Equal(p.Replicas, p.ISR) || len(p.Replicas) != 3 {
				t.Errorf("partition %+v", p)
			}
			if len(slices.Compact(slices.Sorted(slices.Values(p.Replicas)))) != 3 {
				t.Errorf("replicas %v name a broker twice", p.Replicas)
			}
			leads[p.Leader]++
			follows[[2]int32{p.Leader, p.Replicas[1]}]++
		}
	}
	for broker := int32(1); broker <= 4; broker++ {
		if leads[broker] != 12 {
			t.Errorf("broker %d leads %d of 48 partitions", broker, leads[broker])
		}
	}
	if len(follows) != 12 {
		t.Errorf("the first followers of 4 leaders make %d pairs, want all 12", len(follows))
	}
}

// command draws any command that could come up on image, sound or not.
func command(t *rapid.T, image *Image) Command {
	name := rapid.SampledFrom([]string{"a", "a.b", "a_b", "orders", "bad name", "c", "d"})
	ids := func() []TopicID {
		list := []TopicID{{1, 2, 3}}
		for topic := range image.Topics() {
			list = append(list, topic.ID)
		}
		return rapid.SliceOfN(rapid.SampledFrom(list), 0, 3).Draw(t, "topic ids")
	}
	broker := rapid.Int32Range(0, 3)
	switch rapid.IntRange(0, 7).Draw(t, "kind") {
	case 0:
		return FormatCluster{ClusterID: rapid.SampledFrom([]string{"", "x"}).Draw(t, "cluster id")}
	case 1:
		start := StartBroker{ID: broker.Draw(t, "broker"), Host: "h", Port: 9092, LogsEpochMax: rapid.Int32Range(-1, 20).Draw(t, "logs epoch")}
		if rapid.Bool().Draw(t, "has a rack") {
			rack := rapid.StringN(0, 5, 10).Draw(t, "rack")
			start.Rack = &rack
		}
		return start
	case 2:
		var create CreateTopics
		for range rapid.IntRange(0, 3).Draw(t, "topics") {
			topic := NewTopic{Name: name.Draw(t, "name"), ReplicationFactor: int16(rapid.IntRange(0, 3).Draw(t, "factor"))}
			// Ids repeat within a command, but never those of an earlier one: a log id of 128
			// random bits is never drawn again, least of all that of a deleted log.
			source := rand.NewChaCha8([32]byte{rapid.Byte().Draw(t, "seed"), byte(image.Index), byte(image.Index >> 8)})
			if err := topic.Draw(source, rapid.IntRange(1, 4).Draw(t, "partitions")); err != nil {
				t.Fatal(err)
			}
			if rapid.IntRange(0, 3).Draw(t, "by hand") == 0 {
				topic.Replicas = rapid.SliceOfN(rapid.SliceOfN(broker, 1, 3), 1, 4).Draw(t, "replicas")
			}
			if rapid.Bool().Draw(t, "configured") {
				topic.Configs = map[string]string{"retention.ms": "5", "segment.bytes": "1048576"}
			}
			create.Topics = append(create.Topics, topic)
		}
		return create
	case 3:
		return DeleteTopics{IDs: ids()}
	case 4:
		remove := RemoveTombstones{Broker: broker.Draw(t, "broker"), LogIDs: []LogID{{7}}}
		for _, tombstone := range image.Tombstones() {
			remove.LogIDs = append(remove.LogIDs, tombstone.LogID)
		}
		return remove
	case 5:
		return alteration(t, ids(), broker)
	case 6:
		var more CreatePartitions
		for _, id := range ids() {
			asked := MorePartitions{Topic: id, Count: rapid.Int32Range(0, 6).Draw(t, "count")}
			source := rand.NewChaCha8([32]byte{rapid.Byte().Draw(t, "seed"), byte(image.Index), byte(image.Index >> 8), 1})
			if err := asked.Draw(source, rapid.IntRange(1, 4).Draw(t, "present")); err != nil {
				t.Fatal(err)
			}
			more.Topics = append(more.Topics, asked)
		}
		return more
	}
	allocate := AllocateProducerIDs{Broker: broker.Draw(t, "broker")}
	if b, ok := image.Broker(allocate.Broker); ok {
		allocate.BrokerEpoch = b.Epoch
	}
	return allocate
}

// alteration draws changes of topics and brokers.
func alteration(t *rapid.T, topics []TopicID, broker *rapid.Generator[int32]) AlterConfigs {
	var alter AlterConfigs
	add := func(a ConfigAlteration) {
		for range rapid.IntRange(0, 3).Draw(t, "changes") {
			a.Changes = append(a.Changes, ConfigChange{Name: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name"),
				Op: ConfigOp(rapid.IntRange(0, 3).Draw(t, "op")), Value: rapid.SampledFrom([]string{"", "x", "x,y"}).Draw(t, "value"), Base: "y"})
		}
		a.Replace = rapid.Bool().Draw(t, "replace")
		alter.Resources = append(alter.Resources, a)
	}
	for _, id := range topics {
		add(ConfigAlteration{Scope: ConfigOfTopic, Topic: id})
	}
	for range rapid.IntRange(0, 2).Draw(t, "brokers") {
		add(ConfigAlteration{Scope: ConfigOfBroker, Broker: broker.Draw(t, "broker") - 1})
	}
	return alter
}

// For any run of commands: an image never changes once it is made, a refusal changes
// nothing but the index, the delta is the difference, the snapshot restores all,
// and a command survives its encoding.
func TestImagesAreImmutableAndDeltasComplete(t *testing.T) {
	start := newCluster(t, 1, 2).image
	rapid.Check(t, func(t *rapid.T) {
		image := start
		next := int64(0)
		for range rapid.IntRange(1, 25).Draw(t, "commands") {
			command := command(t, image)
			decoded, err := DecodeCommand(AppendCommand(nil, command))
			if err != nil {
				t.Fatalf("%+v: %v", command, err)
			}
			before := AppendImage(nil, image)
			after, delta, result, refusal := Apply(image, image.Index+1, decoded)
			if !bytes.Equal(before, AppendImage(nil, image)) {
				t.Fatalf("%+v changed the image it was applied to", command)
			}
			again, _, _, _ := Apply(image, image.Index+1, command)
			if !bytes.Equal(AppendImage(nil, again), AppendImage(nil, after)) {
				t.Fatalf("%+v gives two images", command)
			}
			if refusal != nil && !bytes.Equal(AppendImage(nil, image.WithIndex(after.Index)), AppendImage(nil, after)) {
				t.Fatalf("%+v was refused (%v) and changed the image", command, refusal)
			}
			if difference := cmp.Diff(Diff(image, after), delta); difference != "" {
				t.Fatalf("%+v: delta and difference differ:\n%s", command, difference)
			}
			if block, ok := result.(AllocateProducerIDsResult); ok {
				if block.First != next {
					t.Fatalf("producer ids %d after %d", block.First, next)
				}
				next += int64(block.Count)
			}
			checkImage(t, after)
			image = after
		}
	})
}

// checkImage checks what holds of every image, and of its copy through a snapshot.
func checkImage(t *rapid.T, image *Image) {
	restored, err := DecodeImage(AppendImage(nil, image))
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []*Image{image, restored} {
		partitions, held, before := 0, map[int32]int{}, ""
		for topic := range i.Topics() {
			if topic.Name <= before {
				t.Fatalf("topic %s comes after %s", topic.Name, before)
			}
			before = topic.Name
			byName, _ := i.Topic(topic.Name)
			byBytes, _ := i.TopicOfBytes([]byte(topic.Name))
			byID, _ := i.TopicByID(topic.ID)
			if byName != topic || byID != topic || byBytes != topic {
				t.Fatalf("topic %s is not found by its name or id", topic.Name)
			}
			for n, p := range topic.Partitions {
				if int(p.ID) != n || i.Tombstoned(p.LogID) || p.Leader != p.Replicas[0] {
					t.Fatalf("topic %s has partition %+v at %d", topic.Name, p, n)
				}
				for _, replica := range p.Replicas {
					held[replica]++
				}
			}
			partitions += len(topic.Partitions)
		}
		if partitions != i.PartitionCount() {
			t.Fatalf("%d partitions, counted %d", partitions, i.PartitionCount())
		}
		for broker, count := range i.replicas {
			if held[broker] != count {
				t.Fatalf("broker %d holds %d replicas, counted %d", broker, held[broker], count)
			}
		}
	}
	if !bytes.Equal(AppendImage(nil, image), AppendImage(nil, restored)) {
		t.Fatal("a snapshot does not restore the image")
	}
	if delta := Diff(image, restored); !delta.Empty() {
		t.Fatalf("a snapshot restores something else: %+v", delta)
	}
}

// A topic that was deleted and created anew between two looks is another topic.
func TestDiffTellsARecreatedTopicFromAChangedOne(t *testing.T) {
	c := newCluster(t, 1)
	c.create(topic(t, "orders", 1, 1))
	before, old := c.image, c.topic("orders")
	c.must(DeleteTopics{IDs: []TopicID{old.ID}})
	anew := NewTopic{Name: "orders", ReplicationFactor: 1}
	if err := anew.Draw(random(1), 2); err != nil {
		t.Fatal(err)
	}
	c.create(anew)
	delta := Diff(before, c.image)
	if len(delta.TopicsDeleted) != 1 || delta.TopicsDeleted[0] != old || len(delta.TopicsCreated) != 1 || delta.TopicsCreated[0].ID != anew.ID || len(delta.TopicsChanged) != 0 {
		t.Errorf("delta %+v", delta)
	}
}

func TestLookingUpATopicDoesNotAllocate(t *testing.T) {
	c := newCluster(t, 1)
	c.create(topic(t, "orders", 1, 1))
	id, name := c.topic("orders").ID, []byte("orders")
	allocations := testing.AllocsPerRun(100, func() {
		_, byID := c.image.TopicByID(id)
		_, byName := c.image.TopicOfBytes(name)
		if !byID || !byName {
			t.Error("not found")
		}
	})
	if allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
}

func TestTopicsFromGoesOnWhereAPageEnded(t *testing.T) {
	c := newCluster(t, 1)
	for _, name := range []string{"a", "c", "b"} {
		c.create(topic(t, name, 1, 1))
	}
	var names []string
	for topic := range c.image.TopicsFrom("b") {
		names = append(names, topic.Name)
	}
	if strings.Join(names, " ") != "b c" {
		t.Errorf("from b on: %v", names)
	}
}
