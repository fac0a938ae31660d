package kafka

// ConsumerGroupHeartbeat (key 68): versions 0 to 1.
//
//	0    how a member of a consumer group joins, stays and leaves (KIP-848)
//	1    a regular expression to subscribe by (RE2); the member draws its own id (KIP-1082)
//
// A field that is null has not changed since the member sent it last; epoch 0 joins, -1 leaves, -2 leaves
// for a while (static members). An answer without an assignment changes none. The answer comes at once: it never
// waits for other members.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker"
	"ringlog/group"
	"ringlog/group/assign"
)

func consumerGroupHeartbeat(ctx context.Context, c *call, asked *kmsg.ConsumerGroupHeartbeatRequest, answer *kmsg.ConsumerGroupHeartbeatResponse) {
	request := &group.ConsumerHeartbeat{
		GroupID: asked.Group, MemberID: asked.MemberID, Epoch: asked.MemberEpoch,
		InstanceID: asked.InstanceID, RackID: asked.RackID, RebalanceTimeoutMillis: asked.RebalanceTimeoutMillis,
		Names: asked.SubscribedTopicNames, Regex: asked.SubscribedTopicRegex, Assignor: asked.ServerAssignor,
		Owned: make([]assign.TopicPartitions, len(asked.Topics)), OwnedGiven: asked.Topics != nil,
		ClientID: c.clientID, ClientHost: clientHost(c.session.conn.RemoteAddr()),
	}
	if asked.Version == 0 && asked.MemberID == "" && asked.MemberEpoch == group.JoinEpoch {
		request.MemberID = newMemberID()
	}
	for i := range asked.Topics {
		request.Owned[i] = assign.TopicPartitions{Topic: asked.Topics[i].TopicID, Partitions: asked.Topics[i].Partitions}
	}
	beat, err := broker.AskGroup[*group.ConsumerHeartbeatAnswer](ctx, c.session.protocol.broker, asked.Group, request)
	if err == nil {
		err = beat.Err
	}
	if err != nil {
		answer.ErrorCode, answer.ErrorMessage = c.answerTo(err)
		return
	}
	answer.MemberID, answer.MemberEpoch, answer.HeartbeatIntervalMillis = &beat.MemberID, beat.Epoch, beat.HeartbeatIntervalMillis
	if !beat.HasAssignment {
		return
	}
	assignment := kmsg.NewConsumerGroupHeartbeatResponseAssignment()
	for _, of := range beat.Assignment {
		topic := kmsg.NewConsumerGroupHeartbeatResponseAssignmentTopic()
		topic.TopicID, topic.Partitions = of.Topic, of.Partitions
		assignment.Topics = append(assignment.Topics, topic)
	}
	answer.Assignment = &assignment
}
