package meta

import (
	"errors"
	"strings"
	"testing"
)

func TestTopicNamesFollowKafkasRules(t *testing.T) {
	for name, sound := range map[string]bool{
		"a": true, "orders.v1_x-Y": true, "__consumer_offsets": true, "...": true, strings.Repeat("x", 249): true,
		"": false, ".": false, "..": false, "bad name": false, "a/b": false, "ä": false, "a\x00": false, strings.Repeat("x", 250): false,
	} {
		if err := CheckTopicName(name); (err == nil) != sound || err != nil && !errors.Is(err, ErrInvalidTopicName) {
			t.Errorf("%.20q: %v", name, err)
		}
	}
}

// What clients depend on, number 4 and 6: names, configurations and counts are
// checked when a topic is created, in the order in which Kafka looks.
func TestCreateTopicsRefusesEachForItself(t *testing.T) {
	c := newCluster(t, 1, 2)
	c.create(topic(t, "orders.v1", 1, 1))
	with := func(name string, partitions int, factor int16, change func(*NewTopic)) NewTopic {
		made := topic(t, name, max(partitions, 1), factor)
		made.LogIDs = made.LogIDs[:partitions]
		if change != nil {
			change(&made)
		}
		return made
	}
	set := func(name, value string) func(*NewTopic) {
		return func(n *NewTopic) { n.Configs = map[string]string{name: value} }
	}
	assign := func(replicas ...[]int32) func(*NewTopic) { return func(n *NewTopic) { n.Replicas = replicas } }
	cases := map[string]struct {
		topic NewTopic
		want  error
		early bool // found by CheckTopics only
	}{
		"exists":                {with("orders.v1", 1, 1, nil), ErrTopicExists, false},
		"exists, bad config":    {with("orders.v1", 1, 1, set("no.such", "1")), ErrTopicExists, false},
		"collides":              {with("orders_v1", 1, 1, nil), ErrInvalidTopicName, false},
		"bad name":              {with("bad name!", 1, 1, nil), ErrInvalidTopicName, false},
		"no partitions":         {with("x", 0, 1, nil), ErrInvalidPartitions, false},
		"factor 0":              {with("x", 1, 0, nil), ErrInvalidReplicationFactor, false},
		"factor -5":             {with("x", 1, -5, nil), ErrInvalidReplicationFactor, false},
		"factor above brokers":  {with("x", 1, 3, nil), ErrInvalidReplicationFactor, false},
		"factor 30000":          {with("x", 1, 30000, nil), ErrInvalidReplicationFactor, false},
		"unknown config":        {with("x", 1, 1, set("no.such.config", "1")), ErrInvalidConfig, true},
		"config of other type":  {with("x", 1, 1, set("retention.ms", "abc")), ErrInvalidConfig, true},
		"unknown broker":        {with("x", 1, 0, assign([]int32{7})), ErrInvalidReplicaAssignment, false},
		"broker twice":          {with("x", 1, 0, assign([]int32{1, 1})), ErrInvalidReplicaAssignment, false},
		"uneven":                {with("x", 2, 0, assign([]int32{1, 2}, []int32{1})), ErrInvalidReplicaAssignment, false},
		"empty assignment":      {with("x", 1, 0, assign([]int32{})), ErrInvalidReplicaAssignment, false},
		"other count":           {with("x", 2, 0, assign([]int32{1})), ErrInvalidReplicaAssignment, false},
		"assignment and factor": {with("x", 1, 1, assign([]int32{1})), ErrInvalidRequest, false},
		"no id":                 {with("x", 1, 1, func(n *NewTopic) { n.ID = TopicID{} }), ErrInvalidRequest, false},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			good := topic(t, "good", 2, 2)
			command := CreateTopics{Topics: []NewTopic{good, test.topic}}
			accepted, refused := c.image.CheckTopics(command)
			if name != "no id" && (len(accepted.Topics) != 1 || accepted.Topics[0].Name != "good" || len(refused) != 1 || !errors.Is(refused[0].Err, test.want)) {
				t.Errorf("CheckTopics accepts %d and refuses %+v, want %v", len(accepted.Topics), refused, test.want)
			}
			after, _, result, err := Apply(c.image, c.image.Index+1, command)
			if err != nil {
				t.Fatal(err)
			}
			results := result.(CreateTopicsResult).Topics
			if results[0].Err != nil || results[0].Topic == nil {
				t.Errorf("the sound topic beside it: %v", results[0].Err)
			}
			if !test.early && (!errors.Is(results[1].Err, test.want) || results[1].Topic != nil || after.TopicCount() != 2) {
				t.Errorf("Apply answers %v, want %v", results[1].Err, test.want)
			}
		})
	}
}

func TestPartitionsAreCappedPerRequestAndBroker(t *testing.T) {
	c := newCluster(t, 1)
	var huge NewTopic
	if err := huge.Draw(random(1), 1<<28); !errors.Is(err, ErrTooManyPartitions) || huge.LogIDs != nil {
		t.Errorf("2^28 partitions: got %v", err)
	}
	if err := huge.Draw(random(1), 0); !errors.Is(err, ErrInvalidPartitions) {
		t.Errorf("no partition: got %v", err)
	}
	two := CreateTopics{Topics: []NewTopic{topic(t, "a", 6000, 1), topic(t, "b", 6000, 1)}}
	accepted, refused := c.image.CheckTopics(two)
	if len(accepted.Topics) != 0 || len(refused) != 2 || !errors.Is(refused[0].Err, ErrTooManyPartitions) {
		t.Errorf("12,000 in one request: %d accepted, %+v", len(accepted.Topics), refused)
	}
	if _, err := c.apply(two); !errors.Is(err, ErrTooManyPartitions) {
		t.Errorf("12,000 in one command: got %v", err)
	}
	c.image.replicas = map[int32]int{1: PartitionsPerBrokerMax - 1}
	results := c.create(topic(t, "c", 2, 1), topic(t, "d", 1, 1), topic(t, "e", 1, 1))
	if !errors.Is(results[0].Err, ErrTooManyPartitions) || results[1].Err != nil || !errors.Is(results[2].Err, ErrTooManyPartitions) {
		t.Errorf("at the broker's limit: %+v", results)
	}
}

func TestATopicNamedTwiceIsRefusedTwice(t *testing.T) {
	c := newCluster(t, 1)
	accepted, refused := c.image.CheckTopics(CreateTopics{Topics: []NewTopic{topic(t, "a", 1, 1), topic(t, "b", 1, 1), topic(t, "a", 1, 1)}})
	if len(accepted.Topics) != 1 || len(refused) != 2 || !errors.Is(refused[0].Err, ErrInvalidRequest) {
		t.Errorf("%d accepted, %+v refused", len(accepted.Topics), refused)
	}
	results := c.create(topic(t, "c.d", 1, 1), topic(t, "c_d", 1, 1))
	if results[0].Err != nil || !errors.Is(results[1].Err, ErrInvalidTopicName) {
		t.Errorf("names that collide within a command: %v, %v", results[0].Err, results[1].Err)
	}
}

// Kafka's tools take an id that begins with '-' for an option.
func TestDrawnIDsAreSoundAndReadBack(t *testing.T) {
	source := random(5)
	for range 1000 {
		id, err := DrawTopicID(source)
		if err != nil || id.IsZero() || id.String()[0] == '-' || len(id.String()) != 22 {
			t.Fatalf("id %s: %v", id, err)
		}
		if back, err := ParseTopicID(id.String()); err != nil || back != id {
			t.Fatalf("id %s reads back as %s: %v", id, back, err)
		}
	}
	for _, text := range []string{"", "abc", strings.Repeat("A", 23), strings.Repeat("=", 22)} {
		if _, err := ParseTopicID(text); err == nil {
			t.Errorf("%q was taken for an id", text)
		}
	}
	if _, err := DrawLogID(strings.NewReader("short")); err == nil {
		t.Error("an id was drawn from too little")
	}
}
