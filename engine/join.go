package engine

import "sync"

// joined is a Read whose parts lie on several shards. It belongs to the shard of
// its first part, the lead, which asks each shard for its own parts with a Read of their own,
// a leg:
//
//	gather: one leg after the other, without waiting ──▶ enough, an error, or time is up ──▶ answer
//	   ▲                                            └──▶ too little: give it back
//	   └── one was called: call back the others ◀── park: all legs at once, none takes bytes
//
// Legs gather in turn because each may take only what those before it left (KIP-74).
// A parked leg is called when its shard has its share of what is missing: when
// there is enough in total, at least one of them has.
type joined struct {
	read *Read
	lead *shard
	legs []*leg // by number of the shard; kept for reuse
	used []*leg // those with parts, in order of their first part

	at       int  // in used: the leg that gathers
	total    int  // bytes that the legs said were there
	left     int  // bytes that the read may still take
	fed      bool // it has some
	refused  bool // a part has an error
	parked   bool // the legs wait for bytes
	calling  bool // the parked legs are called back
	canceled bool // by Engine.Cancel: the next answer is the last
	out      int  // legs that are with their shards, and recalls

	orphans  sync.Mutex // guards out once the lead has ended
	next     *joined    // in joins, live or idle
	previous *joined    // in joins, live
}

// leg is the part of a joined read that one shard serves. It is the shard's from its sending
// until it comes back; a recall comes back, too, so that none is still on its way
// to a shard when the lead sends the leg again.
type leg struct {
	joined *joined
	shard  *shard
	read   Read
	parts  []int // the place of each of read.Parts in the joined read
	away   bool  // it has not come back
}

// joins are the joined reads that a shard leads.
type joins struct {
	shard *shard
	live  *joined
	idle  *joined
}

func (q *joins) init(s *shard) { q.shard = s }

// take begins a joined read.
func (q *joins) take(read *Read) {
	x := q.idle
	if x == nil {
		x = &joined{lead: q.shard, legs: make([]*leg, len(q.shard.engine.shards))}
		for n, s := range q.shard.engine.shards {
			g := &leg{joined: x, shard: s}
			g.read.Done = g.done
			x.legs[n] = g
		}
	} else {
		q.idle = x.next
	}
	x.read, x.canceled = read, false
	x.previous, x.next = nil, q.live
	if q.live != nil {
		q.live.previous = x
	}
	q.live = x
	x.gather()
}

// retire takes an answered one out of the live ones, for reuse.
func (q *joins) retire(x *joined) {
	if x.previous == nil {
		q.live = x.next
	} else {
		x.previous.next = x.next
	}
	if x.next != nil {
		x.next.previous = x.previous
	}
	x.read, x.used = nil, x.used[:0]
	x.previous, x.next = nil, q.idle
	q.idle = x
}

// cancel answers read now, with what is there; false when it is none of these. Only
// the pointer is looked at: a read that was answered is its owner's.
func (q *joins) cancel(read *Read) bool {
	for x := q.live; x != nil; x = x.next {
		if x.read == read {
			x.canceled = true
			if x.parked {
				x.callBack()
			}
			return true
		}
	}
	return false
}

// gather begins a round: it deals the parts to the shards where their logs live now.
func (x *joined) gather() {
	for _, g := range x.used {
		g.read.Release()
	}
	x.used = x.used[:0]
	for i := range x.read.Parts {
		p := &x.read.Parts[i]
		g := x.legs[p.Log.home.Load()]
		if len(x.used) == 0 || !x.uses(g) {
			g.parts, g.read.Parts = g.parts[:0], g.read.Parts[:0]
			x.used = append(x.used, g)
		}
		g.parts = append(g.parts, i)
		g.add(p)
	}
	x.at, x.total, x.left, x.fed, x.refused, x.parked = 0, 0, x.read.BytesMax, false, false, false
	x.gatherNext()
}

func (x *joined) uses(g *leg) bool {
	for _, other := range x.used {
		if other == g {
			return true
		}
	}
	return false
}

// add asks for p as well. The memory of an earlier part is used again.
func (g *leg) add(p *ReadPart) {
	n := len(g.read.Parts)
	if n < cap(g.read.Parts) {
		g.read.Parts = g.read.Parts[:n+1]
	} else {
		g.read.Parts = append(g.read.Parts, ReadPart{})
	}
	part := &g.read.Parts[n]
	*part = ReadPart{Log: p.Log, Offset: p.Offset, BytesMax: p.BytesMax, Batches: part.Batches[:0], pieces: part.pieces[:0]}
}

// gatherNext asks the next leg for what it has.
func (x *joined) gatherNext() {
	g := x.used[x.at]
	g.read.BytesMax, g.read.BytesMin = x.left, 0
	g.read.state = readState{deadline: x.lead.now, fed: x.fed}
	if !x.send(g) {
		x.gather() // a log has moved
	}
}

// send hands a leg to its shard. It is false when one of its logs does not live there any more.
func (x *joined) send(g *leg) bool {
	e := x.lead.engine
	e.routing.RLock()
	for i := range g.read.Parts {
		if int(g.read.Parts[i].Log.home.Load()) != g.shard.number {
			e.routing.RUnlock()
			return false
		}
	}
	x.out++
	g.away = true
	sent := g.shard.inbox.send(message{read: &g.read})
	e.routing.RUnlock()
	if !sent {
		refuseRead(&g.read, ErrClosed)
	}
	return true
}

// done brings a leg back to the lead. It runs on the thread of the leg's shard.
func (g *leg) done(*Read) {
	if !g.joined.lead.inbox.send(message{leg: g}) {
		g.joined.orphaned()
	}
}

// took takes a leg, or its recall, that came back.
func (x *joined) took(g *leg) {
	x.out--
	g.away = false
	if x.parked {
		x.callBack()
		if x.out == 0 {
			x.lead.counters.parked.Add(-1)
			x.gather()
		}
		return
	}
	x.total += g.read.state.total
	for i := range g.read.Parts {
		p := &g.read.Parts[i]
		x.left -= p.Bytes
		x.fed = x.fed || p.Bytes > 0
		x.refused = x.refused || p.Err != nil
	}
	if x.at++; x.at < len(x.used) {
		x.gatherNext()
		return
	}
	now := x.lead.options.Monotonic()
	if x.refused || x.canceled || x.lead.reads.hasty || x.total >= x.read.want() || x.read.state.deadline <= now {
		x.answer()
		return
	}
	x.park()
}

// park leaves every leg with its shard until there is more.
func (x *joined) park() {
	missing := x.read.want() - x.total
	share := (missing + len(x.used) - 1) / len(x.used)
	x.parked, x.calling = true, false
	x.lead.counters.parked.Add(1)
	for _, g := range x.used {
		there := g.read.state.total
		g.read.Release()
		g.read.BytesMax, g.read.BytesMin = x.read.BytesMax, there+share
		g.read.state = readState{deadline: x.read.state.deadline, call: true}
		if !x.send(g) {
			x.callBack() // a log has moved: round again
			break
		}
	}
	if x.out == 0 {
		x.lead.counters.parked.Add(-1)
		x.gather()
	}
}

// callBack ends the parking of the legs.
func (x *joined) callBack() {
	if x.calling {
		return
	}
	x.calling = true
	for _, g := range x.used {
		if g.away && g.shard.inbox.send(message{recall: g}) {
			x.out++
		}
	}
}

// recalled ends the parking of a leg, on the thread of its shard.
func (g *leg) recalled() {
	if !g.shard.cancelHeld(&g.read) {
		g.shard.reads.cancel(&g.read)
	}
	g.done(nil)
}

// answer gives the read back with what the legs brought.
func (x *joined) answer() {
	read := x.read
	for _, g := range x.used {
		for k, i := range g.parts {
			from, to := &g.read.Parts[k], &read.Parts[i]
			to.Batches = append(to.Batches[:0], from.Batches...)
			to.pieces = append(to.pieces[:0], from.pieces...)
			to.Bytes, to.Err, to.Frontiers = from.Bytes, from.Err, from.Frontiers
			clear(from.Batches)
			clear(from.pieces)
			from.Batches, from.pieces = from.Batches[:0], from.pieces[:0]
		}
	}
	x.lead.joins.retire(x)
	read.Done(read)
}

// orphaned counts that a leg came back after the lead has ended; the last one answers the read.
func (x *joined) orphaned() {
	x.orphans.Lock()
	x.out--
	last := x.out == 0
	x.orphans.Unlock()
	if !last {
		return
	}
	for _, g := range x.used {
		g.read.Release()
	}
	refuseRead(x.read, ErrClosed)
}
