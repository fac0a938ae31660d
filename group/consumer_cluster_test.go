package group

import (
	"encoding/binary"

	"ringlog/meta"
)

// testTopics is a cluster's image whose topics a test creates, deletes and enlarges.
type testTopics struct {
	image *meta.Image
	drawn uint64
}

func newTestTopics() *testTopics {
	topics := &testTopics{image: meta.NewImage()}
	topics.apply(meta.FormatCluster{ClusterID: "test"})
	topics.apply(meta.StartBroker{ID: 1, DirectoryID: [16]byte{1}, Host: "localhost", Port: 9092, LogsEpochMax: -1})
	return topics
}

func (c *testTopics) apply(command meta.Command) (meta.Delta, meta.Result) {
	image, delta, result, err := meta.Apply(c.image, c.image.Index+1, command)
	if err != nil {
		panic(err)
	}
	c.image = image
	return delta, result
}

// id draws the next id, so that topics are in the order of their creation.
func (c *testTopics) id() (id [16]byte) {
	c.drawn++
	binary.BigEndian.PutUint64(id[8:], c.drawn)
	return id
}

func (c *testTopics) logIDs(count int) []meta.LogID {
	ids := make([]meta.LogID, count)
	for n := range ids {
		ids[n] = c.id()
	}
	return ids
}

// perRequestMax is how many partitions one command may make.
const perRequestMax = meta.PartitionsPerRequestMax

func (c *testTopics) create(name string, partitions int) *ImageChanged {
	topic := meta.NewTopic{Name: name, ID: c.id(), LogIDs: c.logIDs(min(partitions, perRequestMax)), ReplicationFactor: 1, Internal: name[0] == '_'}
	if _, result := c.apply(meta.CreateTopics{Topics: []meta.NewTopic{topic}}); result.(meta.CreateTopicsResult).Topics[0].Err != nil {
		panic(result.(meta.CreateTopicsResult).Topics[0].Err)
	}
	if partitions > perRequestMax {
		return c.grow(name, partitions)
	}
	return &ImageChanged{Image: c.image}
}

func (c *testTopics) grow(name string, partitions int) *ImageChanged {
	topic, _ := c.image.Topic(name)
	c.apply(meta.CreatePartitions{Topics: []meta.MorePartitions{{Topic: topic.ID, Count: int32(partitions), LogIDs: c.logIDs(partitions - len(topic.Partitions))}}})
	return &ImageChanged{Image: c.image}
}

func (c *testTopics) remove(name string) *ImageChanged {
	topic, _ := c.image.Topic(name)
	delta, _ := c.apply(meta.DeleteTopics{IDs: []meta.TopicID{topic.ID}})
	changed := &ImageChanged{Image: c.image}
	for _, topic := range delta.TopicsDeleted {
		changed.Deleted = append(changed.Deleted, DeletedTopic{Name: topic.Name, ID: topic.ID})
	}
	return changed
}

// testConfig is Kafka's defaults, but that nothing is put off.
func testConfig() *Config {
	return &Config{
		OffsetMetadataBytesMax: 4096, OffsetsRetentionMillis: 7 * 86_400_000, OffsetsCheckIntervalMillis: 1 << 40,
		SessionTimeoutMinMillis: 6000, SessionTimeoutMaxMillis: 1_800_000, MembersMax: 1_000_000,
		Consumer: ConsumerConfig{
			SessionTimeoutMillis:     SettingMillis{Value: 45_000, Min: 45_000, Max: 60_000},
			HeartbeatIntervalMillis:  SettingMillis{Value: 5_000, Min: 5_000, Max: 15_000},
			AssignmentIntervalMillis: SettingMillis{Value: 0, Min: 0, Max: 15_000},
			MembersMax:               1_000_000,
			Assignors:                []string{"uniform", "range"},
		},
	}
}
