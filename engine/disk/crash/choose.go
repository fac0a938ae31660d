package crash

import "math/rand/v2"

// chooser takes the decisions that a device or a power cut leaves open. One
// draws them from a seed, the other walks through all of them.
type chooser interface {
	// flip decides one unit.
	flip() bool
	// below returns a number in [0, n).
	below(n int) int
	// sectors decides count units together: it says of each whether it is kept.
	// It must be asked once for each, in ascending order.
	sectors(count int) func(i int) bool
	// shuffle puts n things in some order.
	shuffle(n int, swap func(i, j int))
}

// dice is the chooser that draws from a seed. Beside units that fall each on
// their own it often keeps all, none, or a leading part, because those are
// the outcomes that code mistakes for something else.
type dice struct {
	*rand.Rand
	mood mood
}

type mood uint8

const (
	mixed mood = iota
	keepAll
	keepNone
)

// newDice returns a chooser whose draws depend on seed and stream alone.
func newDice(seed, stream uint64) *dice {
	return &dice{Rand: rand.New(rand.NewPCG(seed, stream))}
}

func (d *dice) flip() bool {
	switch d.mood {
	case keepAll:
		return true
	case keepNone:
		return false
	}
	return d.IntN(2) == 0
}

func (d *dice) below(n int) int { return d.IntN(n) }

func (d *dice) sectors(count int) func(int) bool {
	if d.mood != mixed {
		return func(int) bool { return d.mood == keepAll }
	}
	switch style := d.IntN(6); style {
	case 0, 1:
		return func(int) bool { return style == 0 }
	case 2:
		cut := d.IntN(count + 1)
		return func(i int) bool { return i < cut }
	case 3:
		cut := d.IntN(count + 1)
		return func(i int) bool { return i >= cut }
	}
	return func(int) bool { return d.IntN(2) == 0 }
}

func (d *dice) shuffle(n int, swap func(i, j int)) { d.Shuffle(n, swap) }

// walker is the chooser that meets every combination: a run reads its
// decisions from script and adds "not kept" where the script ends; next turns
// the script into the following one, like the wheels of a counter.
type walker struct {
	script   []bool
	position int
}

func (w *walker) flip() bool {
	if w.position == len(w.script) {
		w.script = append(w.script, false)
	}
	w.position++
	return w.script[w.position-1]
}

// below is not walked through: it places a tear inside a sector, where the
// middle stands for all.
func (w *walker) below(n int) int { return n / 2 }

func (w *walker) sectors(int) func(int) bool { return func(int) bool { return w.flip() } }

func (w *walker) shuffle(int, func(i, j int)) {}

// next prepares the following run; false when all were run.
func (w *walker) next() bool {
	w.script, w.position = w.script[:w.position], 0
	for last := len(w.script) - 1; last >= 0; last-- {
		if !w.script[last] {
			w.script[last] = true
			w.script = w.script[:last+1]
			return true
		}
	}
	return false
}
