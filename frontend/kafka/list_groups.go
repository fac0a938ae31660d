package kafka

// ListGroups (key 16): versions 0 to 5.
//
//	1    throttle time
//	3    flexible
//	4    states, and a filter for them (KIP-518)
//	5    types, and a filter for them (KIP-848)
//
// Every broker lists the groups that it coordinates. Filters compare without regard to case, and a name that there is
// not lets nothing pass.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker"
	"ringlog/group"
)

func listGroups(ctx context.Context, c *call, asked *kmsg.ListGroupsRequest, answer *kmsg.ListGroupsResponse) {
	answers, err := broker.AskAllGroups[*group.Listed](ctx, c.session.protocol.broker, func() any {
		return &group.List{States: asked.StatesFilter, Types: asked.TypesFilter}
	})
	if answer.ErrorCode = c.failed(err); err != nil {
		return
	}
	for _, listed := range answers {
		for i := range listed.Groups {
			from := &listed.Groups[i]
			one := kmsg.NewListGroupsResponseGroup()
			one.Group, one.ProtocolType, one.GroupState, one.GroupType = from.GroupID, from.ProtocolType, from.State, from.Type
			answer.Groups = append(answer.Groups, one)
		}
	}
}
