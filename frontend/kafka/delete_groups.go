package kafka

// DeleteGroups (key 42): versions 0 to 3 (KIP-229).
//
//	1    throttle time
//	2    flexible
//	3    error messages
//
// Groups of either kind, with their committed offsets; NON_EMPTY_GROUP while there are members. A group that is
// named twice is deleted once.

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker"
	"ringlog/group"
)

func deleteGroups(ctx context.Context, c *call, asked *kmsg.DeleteGroupsRequest, answer *kmsg.DeleteGroupsResponse) {
	ids := slices.Compact(slices.Sorted(slices.Values(asked.Groups)))
	pending := make([]broker.GroupAnswer, len(ids))
	for i, id := range ids {
		pending[i] = c.session.protocol.broker.StartAskGroup(id, &group.Delete{GroupID: id})
	}
	for i, id := range ids {
		deleted, err := broker.AwaitGroup[*group.Deleted](ctx, pending[i])
		if err == nil {
			err = deleted.Err
		}
		one := kmsg.NewDeleteGroupsResponseGroup()
		one.Group = id
		one.ErrorCode, one.ErrorMessage = c.answerTo(err)
		answer.Groups = append(answer.Groups, one)
	}
}
