package engine

import "testing"

// What is read ahead is only what this shard owns: not another shard's part of a group, and
// nothing behind a message that may begin to move a log. (A log that must not be looked at
// is nil here.)
func TestLookAheadReadsWhatTheShardOwns(t *testing.T) {
	r := newRig(t)
	r.start()
	r.open()
	defer r.close()
	s := r.step.shards[0]
	few := s.logs
	defer func() { s.logs = few }()
	group := func(l *Log, shard int32) message {
		return message{group: &AppendGroup{Appends: []Append{{Log: l, shard: shard}}}}
	}
	messages := []message{{group: new(AppendGroup)}, group(nil, 1), group(r.log, 0), {call: new(call)}, group(nil, 0)}

	s.lookAhead([]message{group(nil, 0)})
	if s.ahead != 0 {
		t.Error("few logs are in the caches anyway, and were read")
	}
	s.logs = make([]*Log, aheadLogsMin)
	allocations := testing.AllocsPerRun(100, func() { s.lookAhead(messages) })
	if s.ahead == 0 {
		t.Error("nothing was read")
	}
	if allocations > 0 {
		t.Errorf("%v allocations", allocations)
	}
	s.ahead = 0
	s.arrivals[r.id] = nil
	s.lookAhead(messages)
	delete(s.arrivals, r.id)
	if s.ahead != 0 {
		t.Error("logs are on their way here, and one of them may be the next")
	}
}
