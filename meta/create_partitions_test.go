package meta

import (
	"errors"
	"strings"
	"testing"
)

// more asks for a topic's partitions as a proposer would.
func (c *cluster) more(name string, count int32, replicas ...[]int32) MorePartitions {
	c.t.Helper()
	asked := MorePartitions{Topic: c.topic(name).ID, Count: count, Replicas: replicas}
	if err := asked.Draw(random(byte(count)), len(c.topic(name).Partitions)); err != nil {
		c.t.Fatal(err)
	}
	return asked
}

func TestATopicGrowsAndKeepsWhatItHas(t *testing.T) {
	c := newCluster(t, 1, 2)
	c.create(topic(t, "orders", 2, 1))
	c.must(StartBroker{ID: 1, LogsEpochMax: 5})
	before, old := c.image, c.topic("orders")
	result := c.must(CreatePartitions{Topics: []MorePartitions{c.more("orders", 5)}}).(CreatePartitionsResult).Topics[0]
	now := c.topic("orders")
	if result.Err != nil || result.Topic != now || len(now.Partitions) != 5 || c.image.PartitionCount() != 5 {
		t.Fatalf("%+v, %d partitions", result, len(now.Partitions))
	}
	for n := range now.Partitions {
		p := &now.Partitions[n]
		switch {
		case int(p.ID) != n || len(p.Replicas) != 1 || p.Leader != p.Replicas[0]:
			t.Errorf("partition %d is %+v", n, p)
		case n < 2 && !p.equal(&old.Partitions[n]):
			t.Errorf("partition %d was %+v and is %+v", n, old.Partitions[n], p)
		case n >= 2 && (p.LeaderEpoch != 0 || p.PartitionEpoch != 0):
			t.Errorf("new partition %d begins at epochs %d, %d", n, p.LeaderEpoch, p.PartitionEpoch)
		}
	}
	if len(old.Partitions) != 2 {
		t.Error("the topic of the image before has changed")
	}
	if delta := Diff(before, c.image); len(delta.TopicsChanged) != 1 || delta.TopicsChanged[0] != now {
		t.Errorf("delta %+v", delta)
	}
	c.must(DeleteTopics{IDs: []TopicID{now.ID}})
	if left := len(c.image.Tombstones()); left != 5 || c.image.PartitionCount() != 0 {
		t.Errorf("deleted: %d tombstones, %d partitions", left, c.image.PartitionCount())
	}
}

// The refusals of Kafka's controller, each for its topic alone.
func TestPartitionsAreRefusedAsInKafka(t *testing.T) {
	c := newCluster(t, 1, 2)
	c.create(topic(t, "orders", 3, 2), topic(t, "good", 1, 1))
	raced := c.more("orders", 5)
	raced.LogIDs = raced.LogIDs[:1]
	for name, test := range map[string]struct {
		asked  MorePartitions
		want   error
		reason string
	}{
		"as many":             {c.more("orders", 3), ErrInvalidPartitions, "already has 3 partition(s)"},
		"fewer":               {c.more("orders", 2), ErrInvalidPartitions, "currently has 3 partition(s); 2 would not be an increase"},
		"none":                {c.more("orders", 0), ErrInvalidPartitions, "would not be an increase"},
		"somebody was faster": {raced, ErrInvalidPartitions, "by now"},
		"unknown topic":       {MorePartitions{Topic: TopicID{9}, Count: 1}, ErrUnknownTopic, ""},
		"too few assignments": {c.more("orders", 5, []int32{1, 2}), ErrInvalidReplicaAssignment, "attempted to add 2 additional partition(s), but only 1"},
		"other factor":        {c.more("orders", 4, []int32{1}), ErrInvalidReplicaAssignment, "expected 2"},
		"empty assignment":    {c.more("orders", 4, []int32{}), ErrInvalidReplicaAssignment, "expected 2"},
		"broker twice":        {c.more("orders", 4, []int32{1, 1}), ErrInvalidReplicaAssignment, "twice"},
		"unknown broker":      {c.more("orders", 4, []int32{1, 8}), ErrInvalidReplicaAssignment, "not registered"},
	} {
		t.Run(name, func(t *testing.T) {
			command := CreatePartitions{Topics: []MorePartitions{test.asked, c.more("good", 2)}}
			accepted, refused := c.image.CheckMorePartitions(command)
			if len(accepted.Topics) != 1 || len(refused) != 1 || !errors.Is(refused[0], test.want) || !strings.Contains(refused[0].Error(), test.reason) {
				t.Errorf("%d are accepted, refused %v", len(accepted.Topics), refused)
			}
			after, _, result, err := Apply(c.image, c.image.Index+1, command)
			if err != nil {
				t.Fatal(err)
			}
			results := result.(CreatePartitionsResult).Topics
			if !errors.Is(results[0].Err, test.want) || results[1].Err != nil || after.PartitionCount() != 5 {
				t.Errorf("Apply answers %v and %v, %d partitions", results[0].Err, results[1].Err, after.PartitionCount())
			}
		})
	}
	assigned := c.must(CreatePartitions{Topics: []MorePartitions{c.more("orders", 4, []int32{2, 1})}}).(CreatePartitionsResult).Topics[0]
	if assigned.Err != nil || assigned.Topic.Partitions[3].Leader != 2 {
		t.Errorf("by hand: %+v", assigned)
	}
	var huge MorePartitions
	if huge.Count = 1 << 28; !errors.Is(huge.Draw(random(1), 1), ErrTooManyPartitions) {
		t.Error("2^28 partitions are drawn")
	}
}
