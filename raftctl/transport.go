package raftctl

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// Transport carries raft's messages to the other voters; the network implements it and
// calls Controller.Receive where they arrive. Raft copes with messages that are
// lost, doubled or overtaken.
type Transport interface {
	// Send hands over messages; it must not block. Their memory stays as it is.
	// Whoever knows that a message was lost, and in any case what became of
	// one with Snapshot set, says so by Controller.Sent.
	Send(messages []Message)
}

// Message is one message of raft, opaque to its carrier.
type Message struct {
	To       int32 // broker id
	Snapshot bool  // it carries a whole image and may be large
	Data     []byte
}

// raftID turns a broker id into raft's, where 0 means nobody.
func raftID(broker int32) uint64 { return uint64(broker) + 1 }

// brokerID turns raft's id into a broker's; -1 is nobody.
func brokerID(id uint64) int32 { return int32(id) - 1 }

// Receive takes a message from another voter. It waits while the controller is busy; a
// message that is not for this broker or cannot be read is an error.
func (c *Controller) Receive(ctx context.Context, data []byte) error {
	message := new(raftpb.Message)
	if err := proto.Unmarshal(data, message); err != nil {
		return fmt.Errorf("raftctl: message from another broker: %w", err)
	}
	if message.GetTo() != raftID(c.options.NodeID) || raft.IsLocalMsg(message.GetType()) {
		return fmt.Errorf("raftctl: message %s to %d does not belong here", message.GetType(), brokerID(message.GetTo()))
	}
	return c.input(ctx, func(node *raft.RawNode) { _ = node.Step(message) })
}

// Sent reports what became of a message.
func (c *Controller) Sent(ctx context.Context, message Message, cause error) error {
	return c.input(ctx, func(node *raft.RawNode) {
		if cause != nil {
			node.ReportUnreachable(raftID(message.To))
		}
		if message.Snapshot {
			status := raft.SnapshotFinish
			if cause != nil {
				status = raft.SnapshotFailure
			}
			node.ReportSnapshot(raftID(message.To), status)
		}
	})
}

func (c *Controller) input(ctx context.Context, step func(*raft.RawNode)) error {
	select {
	case c.inputs <- step:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.stopped:
		return c.endError()
	}
}

// send hands raft's messages to the transport.
func (c *Controller) send(messages []*raftpb.Message) error {
	if len(messages) == 0 || c.options.Transport == nil {
		return nil
	}
	out := make([]Message, 0, len(messages))
	for _, message := range messages {
		data, err := proto.Marshal(message)
		if err != nil {
			return fmt.Errorf("raftctl: encoding %s: %w", message.GetType(), err)
		}
		out = append(out, Message{To: brokerID(message.GetTo()), Snapshot: message.GetType() == raftpb.MessageType_MsgSnap, Data: data})
	}
	c.options.Transport.Send(out)
	return nil
}
