package kafka

// SyncGroup (key 14): versions 0 to 5.
//
//	0    a member asks for its assignment; the leader brings everybody's
//	1    throttle time
//	3    group instance ids (KIP-345)
//	4    flexible
//	5    type and name of the protocol, which must be the group's (KIP-559)
//
// Who asks before the leader waits for it, the rebalance timeout at most. The answer says that the assignment is
// durable.

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/group"
)

func syncGroup(ctx context.Context, c *call, asked *kmsg.SyncGroupRequest, answer *kmsg.SyncGroupResponse) {
	if asked.Version >= 5 && (asked.ProtocolType == nil || asked.Protocol == nil) {
		answer.ErrorCode = c.failed(fmt.Errorf("%w: SyncGroup 5 names type and name of the protocol", group.ErrInconsistentProtocol))
		return
	}
	request := &group.Sync{
		GroupID: asked.Group, MemberID: asked.MemberID, InstanceID: asked.InstanceID, Generation: asked.Generation,
		ProtocolType: asked.ProtocolType, Protocol: asked.Protocol, Assignments: make([]group.Assignment, len(asked.GroupAssignment)),
	}
	for i := range asked.GroupAssignment {
		request.Assignments[i] = group.Assignment{MemberID: asked.GroupAssignment[i].MemberID, Assignment: asked.GroupAssignment[i].MemberAssignment}
	}
	synced, err := askMembers[*group.SyncAnswer](ctx, c, asked.Group, request)
	if err == nil {
		err = synced.Err
	}
	if answer.ErrorCode = c.failed(err); err != nil {
		return
	}
	answer.ProtocolType, answer.Protocol, answer.MemberAssignment = synced.ProtocolType, synced.Protocol, synced.Assignment
}
