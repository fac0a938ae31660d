package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

// What one element of an answer takes while the answer is made: kmsg's structs and the bytes
// that they become. A test holds them against what is allocated.
const (
	partitionAnswerBytes = 320      // of Metadata
	topicAnswerBytes     = 512      // of Metadata, its name included
	logDirAnswerBytes    = 704      // a partition of DescribeLogDirs
	resourceAnswerBytes  = 640      // of ListConfigResources
	configsAnswerBytes   = 64 << 10 // a resource of DescribeConfigs, with synonyms and documentation
	createdAnswerBytes   = 12 << 10 // a topic of CreateTopics, with its configurations
)

// answerBytes are the APIs whose answers are out of proportion to their requests, with what an
// answer may hold. What is named twice is counted twice: such a request waits for more than it
// needs.
var answerBytes = map[kmsg.Key]func(c *call) int64{
	kmsg.Metadata: func(c *call) int64 {
		asked, image := c.body.(*kmsg.MetadataRequest), c.session.protocol.broker.Image()
		if asked.Topics == nil || asked.Version == 0 && len(asked.Topics) == 0 {
			return int64(image.TopicCount())*topicAnswerBytes + int64(image.PartitionCount())*partitionAnswerBytes
		}
		partitions := 0
		for i := range asked.Topics {
			one := &asked.Topics[i]
			if one.Topic != nil {
				if topic, ok := image.Topic(*one.Topic); ok {
					partitions += len(topic.Partitions)
				}
			} else if topic, ok := image.TopicByID(one.TopicID); ok {
				partitions += len(topic.Partitions)
			}
		}
		return int64(len(asked.Topics))*topicAnswerBytes + int64(partitions)*partitionAnswerBytes
	},
	kmsg.DescribeConfigs: func(c *call) int64 {
		return int64(len(c.body.(*kmsg.DescribeConfigsRequest).Resources)) * configsAnswerBytes
	},
	kmsg.CreateTopics: func(c *call) int64 {
		return int64(len(c.body.(*kmsg.CreateTopicsRequest).Topics)) * createdAnswerBytes
	},
	kmsg.DescribeLogDirs: func(c *call) int64 {
		return int64(c.session.protocol.broker.Image().PartitionCount()) * logDirAnswerBytes
	},
	kmsg.ListConfigResources: func(c *call) int64 {
		return int64(c.session.protocol.broker.Image().TopicCount()) * resourceAnswerBytes
	},
}
