package kafka

// JoinGroup (key 11): versions 0 to 9.
//
//	0    a member joins a group; one timeout for session and rebalance
//	1    a rebalance timeout (KIP-62)
//	2    throttle time
//	4    a member without an id is given one and joins again: MEMBER_ID_REQUIRED (KIP-394)
//	5    group instance ids: static members (KIP-345)
//	6    flexible
//	7    the protocol's type; null for no protocol
//	8    a reason (KIP-800)
//	9    a static leader that has restarted is told to keep the assignment (KIP-814)
//
// The answer comes when the group has a new generation, which may take the rebalance timeout; the
// member needs no heartbeat meanwhile. A connection that closes changes nothing: the coordinator knows members and
// not connections.

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker"
	"ringlog/group"
)

func joinGroup(ctx context.Context, c *call, asked *kmsg.JoinGroupRequest, answer *kmsg.JoinGroupResponse) {
	request := &group.Join{
		GroupID: asked.Group, MemberID: asked.MemberID, InstanceID: asked.InstanceID, NewMemberID: newMemberID(),
		ClientID: c.clientID, ClientHost: clientHost(c.session.conn.RemoteAddr()),
		SessionTimeoutMillis: asked.SessionTimeoutMillis, RebalanceTimeoutMillis: asked.RebalanceTimeoutMillis,
		ProtocolType: asked.ProtocolType, Protocols: make([]group.Protocol, len(asked.Protocols)),
		RequireMemberID: asked.Version >= 4, SkipAssignment: asked.Version >= 9,
	}
	for i := range asked.Protocols {
		request.Protocols[i] = group.Protocol{Name: asked.Protocols[i].Name, Metadata: asked.Protocols[i].Metadata}
	}
	if asked.Reason != nil {
		request.Reason = *asked.Reason
	}
	joined, err := askMembers[*group.JoinAnswer](ctx, c, asked.Group, request)
	if err != nil {
		answer.ErrorCode, answer.MemberID = c.failed(err), asked.MemberID
		return
	}
	answer.ErrorCode = c.failed(joined.Err)
	answer.MemberID, answer.Generation = joined.MemberID, joined.Generation
	answer.ProtocolType, answer.Protocol = joined.ProtocolType, joined.Protocol
	answer.LeaderID, answer.SkipAssignment = joined.LeaderID, joined.SkipAssignment
	for i := range joined.Members {
		from := &joined.Members[i]
		member := kmsg.NewJoinGroupResponseMember()
		member.MemberID, member.ProtocolMetadata = from.MemberID, from.Metadata
		member.InstanceID = orNull(from.InstanceID)
		answer.Members = append(answer.Members, member)
	}
}

// askMembers asks the coordinator of a group for one of its members. A group with members has a name.
func askMembers[A any](ctx context.Context, c *call, groupID string, request any) (answer A, err error) {
	if groupID == "" {
		return answer, group.ErrInvalidGroupID
	}
	return broker.AskGroup[A](ctx, c.session.protocol.broker, groupID, request)
}

// newMemberID returns what makes a member's id unlike all others: a random UUID, as in Kafka.
func newMemberID() string {
	var id [16]byte
	rand.Read(id[:])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// clientHost names a client's machine as Kafka does: a slash, and its address.
func clientHost(address net.Addr) string {
	host, _, err := net.SplitHostPort(address.String())
	if err != nil {
		host = address.String()
	}
	return "/" + host
}

// orNull returns text, or null for none.
func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
