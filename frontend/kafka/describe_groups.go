package kafka

// DescribeGroups (key 15): versions 0 to 6.
//
//	1    throttle time
//	3    authorized operations, if asked for (KIP-430)
//	4    group instance ids (KIP-345)
//	5    flexible
//	6    GROUP_ID_NOT_FOUND, with a message, for a group that is not there (KIP-1043); before it is Dead, without an error
//
// What a member said of itself is shown of a stable group only. A consumer group is not found here: it has a request of
// its own (KIP-848).

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker"
	"ringlog/group"
)

// groupOperations are Kafka's operations on a group as bits: read, delete, describe, describe and alter its configurations.
const groupOperations = 1<<3 | 1<<6 | 1<<8 | 1<<10 | 1<<11

func describeGroups(ctx context.Context, c *call, asked *kmsg.DescribeGroupsRequest, answer *kmsg.DescribeGroupsResponse) {
	pending := make([]broker.GroupAnswer, len(asked.Groups))
	for i, id := range asked.Groups {
		pending[i] = c.session.protocol.broker.StartAskGroup(id, &group.Describe{GroupID: id})
	}
	for i, id := range asked.Groups {
		described, err := broker.AwaitGroup[*group.Description](ctx, pending[i])
		one := kmsg.NewDescribeGroupsResponseGroup()
		one.Group = id
		if err == nil {
			one.State, err = described.State, described.Err
		}
		switch {
		case err == nil:
			describeGroup(&one, described)
			if asked.IncludeAuthorizedOperations {
				one.AuthorizedOperations = groupOperations
			}
		case !errors.Is(err, group.ErrGroupNotFound) || asked.Version >= 6:
			one.ErrorCode, one.ErrorMessage = c.answerTo(err)
		}
		answer.Groups = append(answer.Groups, one)
	}
}

// describeGroup fills in a group that is there.
func describeGroup(one *kmsg.DescribeGroupsResponseGroup, described *group.Description) {
	one.ProtocolType, one.Protocol = described.ProtocolType, described.Protocol
	for i := range described.Members {
		from := &described.Members[i]
		member := kmsg.NewDescribeGroupsResponseGroupMember()
		member.MemberID, member.InstanceID = from.MemberID, orNull(from.InstanceID)
		member.ClientID, member.ClientHost = from.ClientID, from.ClientHost
		member.ProtocolMetadata, member.MemberAssignment = from.Metadata, from.Assignment
		one.Members = append(one.Members, member)
	}
}
