package kafka

// ElectLeaders (key 43): versions 0 to 2.
//
//	0    the preferred leader (KIP-183)
//	1    or any live replica, be it not in sync (KIP-460); an error for the whole answer
//	2    flexible
//
// A leader never leaves its partition while its broker is there, and elections among several
// brokers are not there yet: who leads already is ELECTION_NOT_NEEDED, and what is led by
// nobody stays so. As in Kafka, a request for all partitions is answered with those only of
// which there is something to tell.

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker"
	"ringlog/meta"
)

// Election types of KIP-460.
const (
	electionPreferred = 0
	electionUnclean   = 1
)

// Errors of elections.
var (
	errElectionNotNeeded      = errors.New("kafka: leader election not needed for topic partition")
	errPreferredNotAvailable  = errors.New("kafka: the preferred leader was not available")
	errEligibleLeadersMissing = errors.New("kafka: eligible topic partition leaders are not available")
)

func electLeaders(_ context.Context, c *call, asked *kmsg.ElectLeadersRequest, answer *kmsg.ElectLeadersResponse) {
	if asked.ElectionType != electionPreferred && asked.ElectionType != electionUnclean {
		answer.ErrorCode = c.failed(fmt.Errorf("%w: unknown election type %d", errInvalidRequest, asked.ElectionType))
		return
	}
	image := c.session.protocol.broker.Image()
	if asked.Topics == nil {
		for topic := range image.Topics() {
			c.electAll(image, topic, asked.ElectionType, answer)
		}
		return
	}
	seen := make(map[broker.PartitionName]bool)
	for i := range asked.Topics {
		elected := kmsg.NewElectLeadersResponseTopic()
		elected.Topic = asked.Topics[i].Topic
		for _, number := range asked.Topics[i].Partitions {
			if name := (broker.PartitionName{Topic: elected.Topic, Partition: number}); !seen[name] {
				seen[name] = true
				elected.Partitions = append(elected.Partitions, c.elected(number, electionOf(image, name, asked.ElectionType)))
			}
		}
		answer.Topics = append(answer.Topics, elected)
	}
}

// electAll answers for the partitions of a topic that have another answer than that no
// election is needed.
func (c *call) electAll(image *meta.Image, topic *meta.Topic, kind int8, answer *kmsg.ElectLeadersResponse) {
	elected := kmsg.NewElectLeadersResponseTopic()
	elected.Topic = topic.Name
	for i := range topic.Partitions {
		if err := election(image, &topic.Partitions[i], kind); !errors.Is(err, errElectionNotNeeded) {
			elected.Partitions = append(elected.Partitions, c.elected(int32(i), err))
		}
	}
	if len(elected.Partitions) > 0 {
		answer.Topics = append(answer.Topics, elected)
	}
}

func (c *call) elected(number int32, err error) kmsg.ElectLeadersResponseTopicPartition {
	partition := kmsg.NewElectLeadersResponseTopicPartition()
	partition.Partition = number
	partition.ErrorCode, partition.ErrorMessage = c.answerTo(err)
	return partition
}

// electionOf finds a partition and returns what becomes of its election.
func electionOf(image *meta.Image, name broker.PartitionName, kind int8) error {
	topic, ok := image.Topic(name.Topic)
	if !ok {
		return fmt.Errorf("%w: no such topic as %s", broker.ErrUnknownTopic, clip(name.Topic))
	}
	partition, ok := topic.Partition(name.Partition)
	if !ok {
		return fmt.Errorf("%w: no such partition as %s-%d", broker.ErrUnknownPartition, name.Topic, name.Partition)
	}
	return election(image, partition, kind)
}

// election returns what becomes of a partition's election; never nil.
func election(image *meta.Image, partition *meta.Partition, kind int8) error {
	_, led := image.Broker(partition.Leader)
	switch {
	case led && (kind == electionUnclean || partition.Leader == partition.Replicas[0]):
		return errElectionNotNeeded
	case kind == electionUnclean:
		return errEligibleLeadersMissing
	}
	return errPreferredNotAvailable
}
