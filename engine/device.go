package engine

import (
	"sync/atomic"
	"time"

	"ringlog/engine/disk"
)

const (
	// SlowAfter is for how long a device may leave an operation without an answer before that is said.
	SlowAfter = 5 * time.Second
	// slowRepeat is how often it is said again.
	slowRepeat = time.Minute
	// eraLength is how exactly the age of an operation is known, and eras how many of them are told apart.
	eraLength = time.Second
	eras      = 64
)

// deviceWatch knows for how long the oldest operation of a shard has been under way. A device that hangs
// answers nobody: appends wait, nothing fails, and without this nobody would know why.
//
// Operations carry the number of the era, a second or so, in which they were submitted, and
// are counted by it; so the hot path costs two additions and no list.
type deviceWatch struct {
	shard  *shard
	flying int                   // operations under way
	count  [eras]int32           // of them, by era modulo eras
	began  [eras]time.Duration   // when these eras began, on the shard's clock
	first  [eras]*disk.Operation // that was submitted in them, while it is under way
	era    uint32                // the present one
	oldest uint32                // no earlier one has any
	timer  timer                 // runs while operations are under way
	slow   bool                  // SlowAfter has passed
	say    time.Duration         // when it may be said next
	since  time.Duration         // published
}

// deviceGauges is what others may know of it.
type deviceGauges struct {
	since atomic.Int64 // when the oldest operation was submitted, on Options.Monotonic; 0 for none
	times atomic.Int64 // that SlowAfter has passed
}

func (w *deviceWatch) init(s *shard) { w.shard = s }

// submitted takes note of an operation.
func (w *deviceWatch) submitted(op *disk.Operation) {
	if w.flying == 0 {
		w.oldest = w.era
		w.began[w.era%eras] = w.shard.now
		if w.timer.index == 0 {
			w.shard.timers.set(&w.timer, w.shard.now+eraLength, w)
		}
	}
	at := w.era % eras
	if w.count[at] == 0 {
		w.first[at] = op
	}
	op.Era = w.era
	w.count[at]++
	w.flying++
}

// completed takes note of its end.
func (w *deviceWatch) completed(op *disk.Operation) {
	at := op.Era % eras
	if w.first[at] == op {
		w.first[at] = nil
	}
	w.count[at]--
	w.flying--
}

// expire begins the next era, and looks at how old the oldest operation is.
func (w *deviceWatch) expire(s *shard) {
	w.note()
	if w.flying > 0 {
		if next := w.era + 1; w.count[next%eras] == 0 { // else something from long ago is still under way
			w.era = next
			w.began[next%eras] = s.now
		}
		s.timers.set(&w.timer, s.now+eraLength, w)
	}
	age := time.Duration(0)
	if w.flying > 0 {
		age = s.now - w.began[w.oldest%eras]
	}
	g := &s.counters.device
	switch {
	case age >= SlowAfter:
		if !w.slow {
			w.slow = true
			g.times.Add(1)
		}
		if s.now >= w.say {
			w.say = s.now + slowRepeat
			kind := "operation"
			if op := w.first[w.oldest%eras]; op != nil {
				kind = op.Kind.String()
			}
			s.logger.Error("the disk does not answer: what needs it waits, and clients will see time-outs",
				"shard", s.number, "directory", s.options.Directory, "age", age, "operation", kind, "in_flight", w.flying)
		}
	case w.slow:
		w.slow, w.say = false, 0
		s.logger.Info("the disk answers again", "shard", s.number, "directory", s.options.Directory)
	}
}

// note publishes since when the oldest operation has been under way.
func (w *deviceWatch) note() {
	since := time.Duration(0)
	if w.flying > 0 {
		for w.oldest != w.era && w.count[w.oldest%eras] == 0 {
			w.oldest++
		}
		since = max(w.began[w.oldest%eras], 1)
	}
	if since != w.since {
		w.since = since
		w.shard.counters.device.since.Store(int64(since))
	}
}

// metrics reads what is known of the device.
func (g *deviceGauges) metrics(m *Metrics, now time.Duration) {
	if since := g.since.Load(); since != 0 {
		m.OldestOperation = max(now-time.Duration(since), 0)
	}
	m.SlowTimes = g.times.Load()
	if m.OldestOperation >= SlowAfter { // whoever asks knows it, also when the shard itself is held up
		m.SlowShards = 1
	}
}
