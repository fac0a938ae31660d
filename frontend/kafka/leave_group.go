package kafka

// LeaveGroup (key 13): versions 0 to 5.
//
//	0    a member leaves
//	1    throttle time
//	3    several members at once, also by their instance ids alone, which an operator knows; an error for each (KIP-345)
//	4    flexible
//	5    a reason for each (KIP-800)

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/group"
)

func leaveGroup(ctx context.Context, c *call, asked *kmsg.LeaveGroupRequest, answer *kmsg.LeaveGroupResponse) {
	members := asked.Members
	if asked.Version < 3 {
		member := kmsg.NewLeaveGroupRequestMember()
		member.MemberID = asked.MemberID
		members = []kmsg.LeaveGroupRequestMember{member}
	}
	request := &group.Leave{GroupID: asked.Group, Members: make([]group.Leaving, len(members))}
	for i := range members {
		request.Members[i] = group.Leaving{MemberID: members[i].MemberID, InstanceID: members[i].InstanceID}
		if members[i].Reason != nil {
			request.Members[i].Reason = *members[i].Reason
		}
	}
	left, err := askMembers[*group.LeaveAnswer](ctx, c, asked.Group, request)
	if err == nil {
		err = left.Err
	}
	if err == nil && asked.Version < 3 {
		err = left.Members[0].Err
	}
	if answer.ErrorCode = c.failed(err); err != nil || asked.Version < 3 {
		return
	}
	for i := range members {
		member := kmsg.NewLeaveGroupResponseMember()
		member.MemberID, member.InstanceID = members[i].MemberID, members[i].InstanceID
		member.ErrorCode = c.failed(left.Members[i].Err)
		answer.Members = append(answer.Members, member)
	}
}
