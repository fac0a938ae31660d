package kafka

// FindCoordinator (key 10): versions 0 to 6.
//
//	0    the coordinator of a group
//	1    of a group or a transactional id (KIP-98); an error message, throttle time
//	3    flexible
//	4    many keys at once (KIP-699)
//	5    as 4
//	6    of a share group (KIP-932)
//
// The first request for a group creates the topic of committed offsets. Kafka answers
// COORDINATOR_NOT_AVAILABLE until it is there; here the answer waits for it, which spares
// clients their back-off.
//
// Transactions and share groups are not served: INVALID_REQUEST, which clients take for
// final, with a message; COORDINATOR_NOT_AVAILABLE would have them ask for ever.

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/meta"
)

// Types of coordinators, as Kafka numbers them.
const (
	coordinatorOfGroup       = 0
	coordinatorOfTransaction = 1
	coordinatorOfShareGroup  = 2
)

func findCoordinator(ctx context.Context, c *call, asked *kmsg.FindCoordinatorRequest, answer *kmsg.FindCoordinatorResponse) {
	if asked.Version < 4 {
		found := c.findCoordinator(ctx, asked, asked.CoordinatorKey)
		answer.ErrorCode, answer.ErrorMessage = found.ErrorCode, found.ErrorMessage
		answer.NodeID, answer.Host, answer.Port = found.NodeID, found.Host, found.Port
		return
	}
	for _, key := range asked.CoordinatorKeys {
		answer.Coordinators = append(answer.Coordinators, c.findCoordinator(ctx, asked, key))
	}
}

func (c *call) findCoordinator(ctx context.Context, asked *kmsg.FindCoordinatorRequest, key string) kmsg.FindCoordinatorResponseCoordinator {
	found := kmsg.NewFindCoordinatorResponseCoordinator()
	found.Key, found.NodeID, found.Port = key, -1, -1
	var coordinator *meta.Broker
	var err error
	switch {
	case asked.CoordinatorType == coordinatorOfGroup:
		coordinator, err = c.session.protocol.broker.FindGroupCoordinator(ctx, key)
	case asked.CoordinatorType == coordinatorOfTransaction && asked.Version >= 1:
		err = fmt.Errorf("%w: transactions are not served", errInvalidRequest)
	case asked.CoordinatorType == coordinatorOfShareGroup && asked.Version >= 6:
		err = fmt.Errorf("%w: share groups are not served", errInvalidRequest)
	default:
		err = fmt.Errorf("%w: there are no coordinators of type %d", errInvalidRequest, asked.CoordinatorType)
	}
	if err != nil {
		found.ErrorCode, found.ErrorMessage = c.answerTo(err)
		return found
	}
	found.NodeID, found.Host, found.Port = coordinator.ID, coordinator.Host, coordinator.Port
	return found
}
