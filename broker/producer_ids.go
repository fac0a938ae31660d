package broker

import (
	"context"
	"fmt"

	"ringlog/meta"
)

// producerIDs hands out ids from blocks that the controller gives this broker.
// Ids that are left when the broker stops are lost, which is fine: there are 2^63.
type producerIDs struct {
	// turn is held (by a value in it) by who takes an id or fetches a block; a
	// channel, because waiting for it ends with the caller's context.
	turn  chan struct{}
	next  int64
	limit int64 // exclusive
}

// InitProducerID returns a producer id that was never given out; its epoch is 0.
func (b *Broker) InitProducerID(ctx context.Context) (int64, error) {
	ctx, cancel := b.withClosing(ctx)
	defer cancel()
	p := &b.producers
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return -1, context.Cause(ctx)
	}
	if p.next == p.limit {
		if err := p.allocate(ctx, b); err != nil {
			return -1, fmt.Errorf("%w: %w", ErrNoProducerIDs, err)
		}
	}
	id := p.next
	p.next++
	return id, nil
}

// allocate gets a block. REQUIRES: turn is held.
func (p *producerIDs) allocate(ctx context.Context, b *Broker) error {
	self, ok := b.Image().Broker(b.options.NodeID)
	if !ok {
		return fmt.Errorf("%w: %d", meta.ErrUnknownBroker, b.options.NodeID)
	}
	result, err := b.options.Controller.Propose(ctx, meta.AllocateProducerIDs{Broker: b.options.NodeID, BrokerEpoch: self.Epoch})
	if err != nil {
		return err
	}
	block := result.(meta.AllocateProducerIDsResult)
	p.next, p.limit = block.First, block.First+int64(block.Count)
	return nil
}
