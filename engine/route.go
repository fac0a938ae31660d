package engine

import (
	"context"
	"errors"
	"math/bits"
)

// ShardsMax is how many shards an engine can have: the bits of a word.
const ShardsMax = 64

// Append implements API. A group whose logs live on several shards goes to each
// of them whole, and each takes its own appends of it.
func (e *Engine) Append(group *AppendGroup) {
	if len(e.shards) > 1 {
		e.appendSplit(group)
		return
	}
	for i := range group.Appends {
		group.Appends[i].shard = 0
	}
	group.expect(1)
	if !e.shards[0].inbox.send(message{group: group}) {
		group.refuse(0, ErrClosed)
	}
}

func (e *Engine) appendSplit(group *AppendGroup) {
	e.routing.RLock()
	touched := uint64(0)
	for i := range group.Appends {
		a := &group.Appends[i]
		a.shard = a.Log.home.Load()
		touched |= 1 << a.shard
	}
	if touched == 0 {
		touched = 1
	}
	group.expect(bits.OnesCount64(touched))
	gone := uint64(0)
	for rest := touched; rest != 0; rest &= rest - 1 {
		n := bits.TrailingZeros64(rest)
		if !e.shards[n].inbox.send(message{group: group}) {
			gone |= 1 << n
		}
	}
	e.routing.RUnlock()
	// Without the lock: an owner may append again.
	for ; gone != 0; gone &= gone - 1 {
		group.refuse(bits.TrailingZeros64(gone), ErrClosed)
	}
}

// expect sets the counters of a group that goes to so many shards.
func (g *AppendGroup) expect(shards int) {
	g.unconsumed.Store(int32(len(g.Appends) + shards))
	g.unanswered.Store(int32(len(g.Appends) + 1))
}

// Read implements API. One whose logs live on several shards goes to that of its
// first part, which asks the others.
func (e *Engine) Read(read *Read) {
	read.state.deadline = e.options.Monotonic() + max(read.Wait, 0)
	lead, split, sent := e.shards[0], false, false
	if len(e.shards) == 1 {
		read.state.lead, read.state.split = lead, false
		sent = lead.inbox.send(message{read: read})
	} else {
		e.routing.RLock()
		for i := range read.Parts {
			s := e.shards[read.Parts[i].Log.home.Load()]
			if i == 0 {
				lead = s
			}
			split = split || s != lead
		}
		read.state.lead, read.state.split = lead, split
		sent = lead.inbox.send(message{read: read})
		e.routing.RUnlock()
	}
	if !sent {
		refuseRead(read, ErrClosed)
	}
}

// Cancel implements API.
func (e *Engine) Cancel(read *Read) {
	if lead := read.state.lead; lead != nil {
		lead.inbox.send(message{cancel: read})
	}
}

// callOwner runs f as a job on the shard where the log of the id lives, or would,
// again where the log has moved before f could begin.
func (e *Engine) callOwner(ctx context.Context, id LogID, f func(j *job) error) error {
	for {
		c := &call{ended: make(chan struct{}), run: func(j *job) error {
			if err := j.awaitArrival(id); err != nil {
				return err
			}
			if l, ok := e.registry.get(id); ok && !j.shard.owns(l) {
				return errMoved
			}
			return f(j)
		}}
		if !e.sendTo(id, message{call: c}) {
			return ErrClosed
		}
		if err := e.await(ctx, c); !errors.Is(err, errMoved) {
			return err
		}
	}
}

// sendTo sends m to the shard where the log of the id lives, or would.
func (e *Engine) sendTo(id LogID, m message) bool {
	e.routing.RLock()
	defer e.routing.RUnlock()
	number := 0
	if l, ok := e.registry.get(id); ok {
		number = int(l.home.Load())
	} else if placed, ok := e.placement.of(id); ok {
		number = placed
	}
	return e.shards[number].inbox.send(m)
}
