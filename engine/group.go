package engine

// How the appends of a group are counted, by the threads of all its shards:
//
//	unconsumed   one for each append until its bytes are copied or refused, one for
//	             each shard until it has gone through the group
//	unanswered   one for each append until it has its answer, one for Consumed
//
// So Consumed comes when no shard looks at the group's batches any more, and
// Answered, the end of the engine's right to the group, after it.

// takeGroup sequences what a produce request has for this shard: each of the batches at
// once, or, where there is no room or others wait already, in turn.
func (s *shard) takeGroup(group *AppendGroup) {
	for i := range group.Appends {
		a := &group.Appends[i]
		if int(a.shard) != s.number {
			continue
		}
		a.group, a.next, a.size, a.BaseOffset, a.StartOffset, a.Err = group, nil, 0, -1, -1, nil
		if s.hold(a) {
			continue
		}
		l := a.Log
		if l.waiting.head != nil || !l.tryAppend(a) {
			l.waiting.push(a)
			s.counters.waiting.Add(1)
		}
	}
	group.consumed()
}

// refuse answers the appends for one shard, which is over.
func (g *AppendGroup) refuse(shard int, err error) {
	for i := range g.Appends {
		if a := &g.Appends[i]; int(a.shard) == shard {
			a.BaseOffset, a.StartOffset, a.Err = -1, -1, err
			g.consumed()
			g.answered()
		}
	}
	g.consumed()
}

// consumed counts that one more batch, or shard, is done with the group's memory.
func (g *AppendGroup) consumed() {
	if g.unconsumed.Add(-1) == 0 {
		g.Owner.Consumed(g)
		g.answered()
	}
}

// answered counts one more answer.
func (g *AppendGroup) answered() {
	if g.unanswered.Add(-1) == 0 {
		g.Owner.Answered(g)
	}
}
