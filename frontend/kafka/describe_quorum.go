package kafka

// DescribeQuorum (key 55): versions 0 to 2.
//
//	0    leader, epoch, high watermark and voters of the metadata quorum (KIP-595)
//	1    when voters last fetched and were caught up (KIP-836): not known, -1
//	2    voters' directories and addresses, error messages (KIP-853)
//
// The quorum is etcd's raft, shown as the one partition that Kafka has for it: the term is the
// leader epoch, and entries are offsets. What another voter has is not known here, which is
// -1; there are no observers.

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker"
)

// metadataTopic is the name under which Kafka's tools ask for the quorum.
const metadataTopic = "__cluster_metadata"

// errNoQuorum is answered where no quorum can be described.
var errNoQuorum = errors.New("kafka: there is no metadata quorum to describe")

func describeQuorum(_ context.Context, c *call, asked *kmsg.DescribeQuorumRequest, answer *kmsg.DescribeQuorumResponse) {
	b := c.session.protocol.broker
	quorum, there := b.Quorum()
	if !there {
		answer.ErrorCode, answer.ErrorMessage = c.answerTo(errNoQuorum)
		return
	}
	for i := range asked.Topics {
		topic := kmsg.NewDescribeQuorumResponseTopic()
		topic.Topic = asked.Topics[i].Topic
		for _, partition := range asked.Topics[i].Partitions {
			topic.Partitions = append(topic.Partitions, c.describeQuorumPartition(&quorum, topic.Topic, partition.Partition))
		}
		answer.Topics = append(answer.Topics, topic)
	}
	image := b.Image()
	for _, id := range quorum.Voters {
		voter, registered := image.Broker(id)
		if !registered {
			continue
		}
		node := kmsg.NewDescribeQuorumResponseNode()
		node.NodeID = id
		listener := kmsg.NewDescribeQuorumResponseNodeListener()
		listener.Name, listener.Host, listener.Port = "PLAINTEXT", voter.Host, uint16(voter.Port)
		node.Listeners = append(node.Listeners, listener)
		answer.Nodes = append(answer.Nodes, node)
	}
}

func (c *call) describeQuorumPartition(quorum *broker.QuorumStatus, topic string, number int32) kmsg.DescribeQuorumResponseTopicPartition {
	partition := kmsg.NewDescribeQuorumResponseTopicPartition()
	partition.Partition = number
	if topic != metadataTopic || number != 0 {
		partition.ErrorCode, partition.ErrorMessage = c.answerTo(fmt.Errorf("%w: only %s-0 is a quorum's", broker.ErrUnknownPartition, metadataTopic))
		return partition
	}
	partition.LeaderID, partition.LeaderEpoch = quorum.LeaderID, int32(quorum.Term)
	partition.HighWatermark = int64(quorum.Committed) + 1
	image, self := c.session.protocol.broker.Image(), c.session.protocol.broker.NodeID()
	for _, id := range quorum.Voters {
		voter := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
		voter.ReplicaID, voter.LogEndOffset = id, -1
		if id == self {
			voter.LogEndOffset = int64(quorum.Applied) + 1
		}
		if registered, ok := image.Broker(id); ok {
			voter.ReplicaDirectoryID = registered.DirectoryID
		}
		partition.CurrentVoters = append(partition.CurrentVoters, voter)
	}
	return partition
}
