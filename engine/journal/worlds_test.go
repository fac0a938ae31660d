package journal

import (
	"flag"
	"fmt"
	"slices"
	"testing"
)

// A world is everything that a shard with a tiny ring can have done before a
// crash, and everything that the crash can have left: each frame has a slot of
// its own. The worlds of a size are all enumerated.

const slotsMax = 4

// go test ./engine/journal -run World -args -frames=6 goes through 45 million.
var framesMost = flag.Int("frames", 5, "how many frames the worlds have that are judged")

// fate is what a search finds of a frame that was written, or was being written.
type fate uint8

const (
	nothing  fate = iota // no frame begins there: never written, or its header is damaged
	damaged              // its header is intact, the rest is not
	whole                // all of it
	underway             // not begun: what was there before still is
)

type cell struct {
	Found
	fate fate
}

type disk [slotsMax]cell

// life is a run of the shard up to a moment.
type life struct {
	slots         int
	run           uint64
	first, last   uint64 // of its sequences; last is first-1 before the first frame
	flushed       uint64 // everything up to here is flushed, and may be acknowledged
	from          uint64 // everything below is in the segments
	checkpoint    Trim   // as it is durable
	ring, beneath disk   // the newest frame of each slot, and the one before it
}

func begin(slots int, run, first uint64, ring disk) life {
	return life{slots: slots, run: run, first: first, last: first - 1, flushed: first - 1, from: first,
		checkpoint: Trim{Run: run, From: first, Flushed: first - 1}, ring: ring, beneath: ring}
}

func (l *life) slot(sequence uint64) int { return int(sequence % uint64(l.slots)) }

// moments calls visit with all that can be true before the next frame: a
// flush came to its end, a trim, a checkpoint.
func (l life) moments(visit func(life)) {
	for flushed := l.flushed; flushed <= l.last; flushed++ {
		for from := l.from; from <= l.last+1; from++ {
			m := l
			m.flushed, m.from = flushed, from
			if from > l.from { // space is reused only after this
				m.checkpoint = Trim{Run: l.run, From: from, Flushed: flushed}
				visit(m)
				continue
			}
			visit(m)
			if flushed > l.checkpoint.Flushed {
				m.checkpoint.Flushed = flushed
				visit(m)
			}
		}
	}
}

// built returns the life after one more frame, unless its slot is needed.
func (l life) built() (life, bool) {
	l.last++
	if l.last-l.first >= uint64(l.slots) && l.last-uint64(l.slots) >= l.from {
		return l, false
	}
	at := l.slot(l.last)
	l.beneath[at] = l.ring[at]
	l.ring[at] = cell{Found{Run: l.run, Sequence: l.last, Flushed: l.flushed, From: l.from, Whole: true}, whole}
	return l, true
}

// crashes calls visit with all that the disk can hold after a crash: what was not
// flushed is there, torn, or not; what was flushed is there or rotten.
func (l life) crashes(visit func(disk)) {
	var at func(i int, d disk)
	at = func(i int, d disk) {
		if i == l.slots {
			visit(d)
			return
		}
		c := l.ring[i]
		if c.fate == nothing {
			at(i+1, d)
			return
		}
		for _, f := range []fate{nothing, damaged, whole, underway} {
			switch {
			case f == underway && (c.Run != l.run || c.Sequence <= l.flushed):
				continue
			case f == underway:
				d[i] = l.beneath[i]
			case f > c.fate: // what a former crash tore does not heal
				continue
			default:
				d[i] = c
				d[i].fate = f
				d[i].Whole = f == whole
			}
			at(i+1, d)
		}
	}
	at(0, l.ring)
}

// explore calls visit once with every moment of every life that goes on with at
// most that many frames.
func (l life) explore(frames int, seen map[life]bool, visit func(life)) {
	l.moments(func(m life) {
		if seen[m] {
			return // another history, and nothing is left of the difference
		}
		seen[m] = true
		visit(m)
		if next, ok := m.built(); ok && frames > 0 {
			next.explore(frames-1, seen, visit)
		}
	})
}

func (d *disk) found() (found []Found) {
	for i := range d {
		if d[i].fate != nothing {
			found = append(found, d[i].Found)
		}
	}
	return found
}

// sight is what one judgement can know, gathered one sequence at a time: the rule
// once more, in the plainest words.
type sight struct {
	found         []Found
	known         bool
	run           uint64
	from, witness uint64
	end           uint64 // one above every sequence seen
}

func see(found []Found, checkpoint Trim, known bool) sight {
	s := sight{found: found, known: known}
	if known {
		s.run, s.from, s.witness = checkpoint.Run, checkpoint.From, checkpoint.Flushed
	} else {
		for _, f := range found {
			s.run = max(s.run, f.Run)
		}
	}
	s.from = max(s.from, 1)
	s.end = max(s.from, s.witness+1)
	for _, f := range found {
		if f.Run == s.run {
			s.from, s.witness = max(s.from, f.From), max(s.witness, f.Flushed)
		}
		s.end = max(s.end, f.Sequence+1)
	}
	return s
}

func (s *sight) has(sequence uint64) (there, whole bool) {
	for _, f := range s.found {
		if f.Run == s.run && f.Sequence == sequence {
			return true, f.Whole
		}
	}
	return false, false
}

// judge says what must come of each sequence.
func (s *sight) judge() (take, damaged, dropped []uint64) {
	ended := false
	for q := s.from; q < s.end; q++ {
		there, whole := s.has(q)
		torn := !whole && q > s.witness
		ended = ended || s.known && torn
		if !whole && !torn {
			damaged = append(damaged, q)
		}
		switch {
		case there && (ended || torn):
			dropped = append(dropped, q)
		case there:
			take = append(take, q)
		}
	}
	return take, damaged, dropped
}

// flat is a verdict as sequences.
func flat(found []Found, v Verdict) (take, damaged, dropped []uint64) {
	for _, i := range v.Take {
		take = append(take, found[i].Sequence)
	}
	for _, r := range v.Damaged {
		for q := r.From; q < r.To; q++ {
			damaged = append(damaged, q)
		}
	}
	for _, i := range v.Dropped {
		dropped = append(dropped, found[i].Sequence)
	}
	return take, damaged, dropped
}

// examine judges one world, with the checkpoint or without it, and says what
// is wrong with the verdict.
func (l *life) examine(d *disk, known bool) error {
	found := d.found()
	v := Judge(found, l.checkpoint, known)
	take, hurt, dropped := flat(found, v)
	s := see(found, l.checkpoint, known)
	wantTake, wantHurt, wantDropped := s.judge()
	if v.Run != s.run || !slices.Equal(take, wantTake) || !slices.Equal(hurt, wantHurt) || !slices.Equal(dropped, wantDropped) {
		return fmt.Errorf("takes %d, damaged %d, drops %d; want %d, %d, %d", take, hurt, dropped, wantTake, wantHurt, wantDropped)
	}
	if len(v.Ahead) > 0 || v.Next < s.end || v.NextRun <= v.Run {
		return fmt.Errorf("frames %d are ahead, the next run is %d from %d", v.Ahead, v.NextRun, v.Next)
	}
	slices.Reverse(found)
	backTake, backHurt, backDropped := flat(found, Judge(found, l.checkpoint, known))
	if !slices.Equal(take, backTake) || !slices.Equal(hurt, backHurt) || !slices.Equal(dropped, backDropped) {
		return fmt.Errorf("in another order the verdict is another: %d, %d, %d", backTake, backHurt, backDropped)
	}
	if v.Run != l.run {
		return nil // no checkpoint, and not one frame of this run: nothing tells that it ever was
	}
	return l.hold(d, known, s.witness, take, hurt, dropped)
}

// hold compares a verdict with what really happened. Nothing here is taken from
// what the judge can know, but for the highest witness.
func (l *life) hold(d *disk, known bool, witness uint64, take, hurt, dropped []uint64) error {
	good := func(q uint64) bool {
		c := d[l.slot(q)]
		return c.Run == l.run && c.Sequence == q && c.fate == whole
	}
	lost := uint64(0) // the first that was flushed and is rotten, without anybody who knows
	for q := l.from; q <= l.flushed; q++ {
		rotten := !good(q)
		switch reported := slices.Contains(hurt, q); {
		case rotten && q <= witness && !reported:
			return fmt.Errorf("%d is corrupt, %d says that it was flushed, and nobody is told", q, witness)
		case rotten && q > witness && lost == 0:
			lost = q
		case !rotten && reported:
			return fmt.Errorf("%d is whole and called damaged", q)
		case !rotten && lost == 0 && !slices.Contains(take, q):
			return fmt.Errorf("%d was acknowledged, is there, and is not taken", q)
		}
	}
	for _, q := range hurt {
		if q > l.flushed {
			return fmt.Errorf("%d was never flushed and is called damaged", q)
		}
		// What was trimmed is missed only without the checkpoint that says so, and only
		// if what lies over it is unreadable too.
		if over := d[l.slot(q)]; q < l.from && (known || over.fate == whole) {
			return fmt.Errorf("%d is called damaged and was not needed any more", q)
		}
	}
	for _, q := range dropped {
		if q <= l.flushed && q >= l.from && (lost == 0 || q < lost) {
			return fmt.Errorf("%d was acknowledged and is dropped", q)
		}
	}
	for _, q := range take {
		if known && q < l.from {
			return fmt.Errorf("%d is taken though it was trimmed", q)
		}
		for before := l.from; known && before < q; before++ {
			if !good(before) && !slices.Contains(hurt, before) {
				return fmt.Errorf("%d is taken behind %d, which is not there", q, before)
			}
		}
	}
	return nil
}

// worlds judges all that a crash can leave of a life, with the checkpoint and
// without, and calls each with what is left.
func (l *life) worlds(t *testing.T, each func(disk)) (count int) {
	l.crashes(func(d disk) {
		for _, known := range []bool{true, false} {
			count++
			if err := l.examine(&d, known); err != nil {
				t.Fatalf("%v\nflushed %d, needed from %d, checkpoint %+v (known: %v)\nring %+v\ndisk %+v",
					err, l.flushed, l.from, l.checkpoint, known, l.ring[:l.slots], d[:l.slots])
			}
		}
		each(d)
	})
	return count
}

// Rules 5 and 9 of the engine, scenarios 5, 7 and 16: whatever a run did,
// whatever the crash left of it, with the checkpoint or without.
func TestEveryWorldOfOneRun(t *testing.T) {
	most := *framesMost
	for _, size := range []struct{ slots, frames int }{{1, most}, {2, most}, {3, most}, {4, most - 1}} {
		count, seen := 0, map[life]bool{}
		begin(size.slots, 1, 1, disk{}).explore(size.frames, seen, func(m life) { count += m.worlds(t, func(disk) {}) })
		t.Logf("%d slots, %d frames: %d worlds of %d moments", size.slots, size.frames, count, len(seen))
		if count < 1000 {
			t.Errorf("only %d worlds", count)
		}
	}
}

// The next run finds what the crash of the last one left, torn frames of its own
// lap among them, and begins where Judge says.
func TestEveryWorldOfTwoRuns(t *testing.T) {
	most := *framesMost / 2
	for _, size := range []struct{ slots, first, second int }{{2, most, 3}, {3, most, most}} {
		type end struct {
			ring disk
			next uint64
		}
		ends := map[end]bool{}
		begin(size.slots, 1, 1, disk{}).explore(size.first, map[life]bool{}, func(m life) {
			m.worlds(t, func(d disk) { ends[end{d, Judge(d.found(), m.checkpoint, true).Next}] = true })
		})
		count, seen := 0, map[life]bool{}
		for e := range ends {
			begin(size.slots, 2, e.next, e.ring).explore(size.second, seen, func(m life) { count += m.worlds(t, func(disk) {}) })
		}
		t.Logf("%d slots, %d and %d frames: %d worlds behind %d ends", size.slots, size.first, size.second, count, len(ends))
	}
}
