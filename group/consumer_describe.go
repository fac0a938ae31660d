package group

import (
	"ringlog/group/assign"
	"ringlog/meta"
)

// DescribeConsumerGroup asks for all that is known of one consumer group.
type DescribeConsumerGroup struct{ GroupID string }

// ConsumerGroupDescription answers DescribeConsumerGroup.
type ConsumerGroupDescription struct {
	Err             error
	GroupID         string
	State           string
	Epoch           int32
	AssignmentEpoch int32
	Assignor        string
	Members         []ConsumerMemberDescription
}

// ConsumerMemberDescription is one member of a ConsumerGroupDescription.
type ConsumerMemberDescription struct {
	MemberID             string
	InstanceID, RackID   string // "" when it has none
	Epoch                int32
	ClientID, ClientHost string
	Names                []string
	Regex                string
	// Classic says that the member speaks the classic protocol.
	Classic          bool
	Assigned, Target []NamedPartitions
}

// NamedPartitions are partitions of a topic that exists.
type NamedPartitions struct {
	Topic      string
	ID         meta.TopicID
	Partitions []int32
}

func (r *DescribeConsumerGroup) step(m *Machine, c call) {
	g := m.group(r.GroupID)
	if g == nil || g.consumer == nil {
		c.answer(&ConsumerGroupDescription{GroupID: r.GroupID, Err: ErrGroupNotFound})
		return
	}
	c.answer(g.consumer.describe())
}

func (g *consumerGroup) describe() *ConsumerGroupDescription {
	described := &ConsumerGroupDescription{GroupID: g.group.id, State: g.state(), Epoch: g.epoch, AssignmentEpoch: g.assignmentEpoch,
		Assignor: g.assignor, Members: make([]ConsumerMemberDescription, len(g.order))}
	if described.Assignor == "" {
		described.Assignor = g.preferredAssignor().Name()
	}
	for n, member := range g.order {
		described.Members[n] = ConsumerMemberDescription{
			MemberID: member.id, InstanceID: member.instance, RackID: member.rack, Epoch: member.position.epoch,
			ClientID: member.clientID, ClientHost: member.clientHost, Names: member.names, Regex: member.regex,
			Classic:  member.classic != nil,
			Assigned: g.named(member.position.assigned), Target: g.named(member.target),
		}
	}
	return described
}

// named gives partitions their topics' names; those of deleted topics are left out.
func (g *consumerGroup) named(partitions assign.Partitions) []NamedPartitions {
	named := make([]NamedPartitions, 0, len(partitions))
	for _, of := range partitions {
		if topic, ok := g.machine.image.TopicByID(of.Topic); ok {
			named = append(named, NamedPartitions{Topic: topic.Name, ID: of.Topic, Partitions: of.Partitions})
		}
	}
	return named
}
