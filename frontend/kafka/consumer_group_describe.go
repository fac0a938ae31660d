package kafka

// ConsumerGroupDescribe (key 69): versions 0 to 1.
//
//	0    the members of consumer groups, what they have and what they are to have (KIP-848)
//	1    of each member, whether it speaks the classic protocol
//
// A classic group is not found here, as a consumer group is not by DescribeGroups: GROUP_ID_NOT_FOUND. A group that is named
// twice is answered once, so that an answer stays in proportion to what there is.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker"
	"ringlog/group"
)

// The types of members from version 1 on.
const (
	memberTypeClassic  = 0
	memberTypeConsumer = 1
)

func consumerGroupDescribe(ctx context.Context, c *call, asked *kmsg.ConsumerGroupDescribeRequest, answer *kmsg.ConsumerGroupDescribeResponse) {
	var ids []string
	var pending []broker.GroupAnswer
	seen := make(map[string]bool, len(asked.Groups))
	for _, id := range asked.Groups {
		if seen[id] {
			continue
		}
		seen[id] = true
		ids = append(ids, id)
		pending = append(pending, c.session.protocol.broker.StartAskGroup(id, &group.DescribeConsumerGroup{GroupID: id}))
	}
	for i, id := range ids {
		described, err := broker.AwaitGroup[*group.ConsumerGroupDescription](ctx, pending[i])
		if err == nil {
			err = described.Err
		}
		one := kmsg.NewConsumerGroupDescribeResponseGroup()
		one.Group = id
		if one.ErrorCode, one.ErrorMessage = c.answerTo(err); err == nil {
			describeConsumerGroup(&one, described)
			if asked.IncludeAuthorizedOperations {
				one.AuthorizedOperations = groupOperations
			}
		}
		answer.Groups = append(answer.Groups, one)
	}
}

// describeConsumerGroup fills in a group that is there.
func describeConsumerGroup(one *kmsg.ConsumerGroupDescribeResponseGroup, described *group.ConsumerGroupDescription) {
	one.State, one.Epoch, one.AssignmentEpoch, one.AssignorName = described.State, described.Epoch, described.AssignmentEpoch, described.Assignor
	one.Members = make([]kmsg.ConsumerGroupDescribeResponseGroupMember, len(described.Members))
	for i := range described.Members {
		from, to := &described.Members[i], &one.Members[i]
		*to = kmsg.NewConsumerGroupDescribeResponseGroupMember()
		to.MemberID, to.InstanceID, to.RackID = from.MemberID, orNull(from.InstanceID), orNull(from.RackID)
		to.MemberEpoch, to.ClientID, to.ClientHost = from.Epoch, from.ClientID, from.ClientHost
		to.SubscribedTopics, to.SubscribedTopicRegex = from.Names, orNull(from.Regex)
		to.Assignment, to.TargetAssignment = namedPartitions(from.Assigned), namedPartitions(from.Target)
		to.MemberType = memberTypeConsumer
		if from.Classic {
			to.MemberType = memberTypeClassic
		}
	}
}

func namedPartitions(partitions []group.NamedPartitions) kmsg.Assignment {
	assignment := kmsg.NewAssignment()
	for _, of := range partitions {
		topic := kmsg.NewAssignmentTopicPartition()
		topic.TopicID, topic.Topic, topic.Partitions = of.ID, of.Topic, of.Partitions
		assignment.TopicPartitions = append(assignment.TopicPartitions, topic)
	}
	return assignment
}
