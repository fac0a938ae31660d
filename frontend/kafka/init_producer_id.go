package kafka

// InitProducerId (key 22): versions 0 to 5.
//
//	0    a producer id for an idempotent producer (KIP-98)
//	2    flexible
//	3    id and epoch of a producer that wants a higher epoch (KIP-360)
//	4    PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH
//	5    as 4
//
// Without a transactional id every request gets a new id at epoch 0, as in Kafka,
// also one that names an old id. A transactional id is INVALID_REQUEST: clients
// take every code that they do not expect here as fatal, and this one's text
// speaks of a broker that cannot do it. TRANSACTIONAL_ID_AUTHORIZATION_FAILED would
// blame the user's rights, UNSUPPORTED_VERSION have clients look for another
// version. Clients rarely come this far: they ask for the transaction
// coordinator first, and get the same answer.

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func initProducerID(ctx context.Context, c *call, asked *kmsg.InitProducerIDRequest, answer *kmsg.InitProducerIDResponse) {
	answer.ProducerID, answer.ProducerEpoch = -1, -1
	if asked.TransactionalID != nil {
		answer.ErrorCode = c.failed(fmt.Errorf("%w: transactions are not served", errInvalidRequest))
		return
	}
	id, err := c.session.protocol.broker.InitProducerID(ctx)
	if err != nil {
		answer.ErrorCode = c.failed(err)
		return
	}
	answer.ProducerID, answer.ProducerEpoch = id, 0
}
