package kafka

// Heartbeat (key 12): versions 0 to 4.
//
//	1    throttle time
//	3    group instance ids (KIP-345)
//	4    flexible
//
// A member of a classic group is alive; REBALANCE_IN_PROGRESS tells it to join again.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/group"
)

func heartbeat(ctx context.Context, c *call, asked *kmsg.HeartbeatRequest, answer *kmsg.HeartbeatResponse) {
	beaten, err := askMembers[*group.HeartbeatAnswer](ctx, c, asked.Group, &group.Heartbeat{
		GroupID: asked.Group, MemberID: asked.MemberID, InstanceID: asked.InstanceID, Generation: asked.Generation})
	if err == nil {
		err = beaten.Err
	}
	answer.ErrorCode = c.failed(err)
}
