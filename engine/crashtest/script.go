package crashtest

import (
	"math/rand/v2"
	"strings"
)

// Op is one operation of a script.
type Op struct {
	Kind OpKind
	// Settle lets the operation come to rest before the next one begins; else
	// the two overlap as far as the engine allows.
	Settle bool
}

// OpKind says what an Op does.
type OpKind uint8

const (
	// Append sends one to three small batches.
	Append OpKind = iota
	// AppendBig sends a batch of several blocks.
	AppendBig
	// Roll sends a batch, and at once another that begins a segment.
	Roll
	// Flush waits until everything is acknowledged.
	Flush
	// Truncate cuts some of the last batches away.
	Truncate
	// Retain deletes the old segments by size.
	Retain
	// AdvanceStart deletes records from the front.
	AdvanceStart
	// Checkpoint lets the clock pass the next checkpoint.
	Checkpoint
	// Create makes another log.
	Create
	// Delete deletes a log.
	Delete
	// Restart closes the engine and starts another on what a kill or a power
	// cut after that leaves.
	Restart

	// enumerated is where the kinds end that pairs are made of.
	enumerated

	// Retry sends one of the last batches again.
	Retry
	// Read reads everything and compares.
	Read
	// Kill ends the process; the next life recovers.
	Kill
	// Cut turns the power off; the next life recovers.
	Cut
	// Pester makes writes short and completions late.
	Pester
	// Fail makes the disk fail: a write, a flush, a reservation.
	Fail
	// Move brings a log to another shard, when there are several.
	Move
	// Flood sends many small batches to all logs: about a third of a small journal.
	Flood
	// Age lets the oldest entry of the journal get old, so that it is trimmed.
	Age
	// Pass lets some time go by, less than that.
	Pass

	opKinds
)

var opNames = [opKinds]string{
	Append: "append", AppendBig: "append big", Roll: "roll", Flush: "flush", Truncate: "truncate", Retain: "retain",
	AdvanceStart: "advance start", Checkpoint: "checkpoint", Create: "create", Delete: "delete", Restart: "restart",
	Retry: "retry", Read: "read", Kill: "kill", Cut: "cut", Pester: "pester", Fail: "fail", Move: "move",
	Flood: "flood", Age: "age", Pass: "pass",
}

// String returns the operation as scripts show it; a dot says that it settles.
func (o Op) String() string {
	if o.Settle {
		return opNames[o.Kind] + "."
	}
	return opNames[o.Kind]
}

// Script is a sequence of operations.
type Script []Op

// String returns the operations in order.
func (s Script) String() string {
	words := make([]string, len(s))
	for i, op := range s {
		words[i] = op.String()
	}
	return strings.Join(words, ", ")
}

// Pairs returns every sequence of two operations, each with the first one
// settled and not.
func Pairs() []Script {
	var pairs []Script
	for first := range enumerated {
		for second := range enumerated {
			pairs = append(pairs, Script{{first, false}, {second, true}}, Script{{first, true}, {second, true}})
		}
	}
	return pairs
}

// MovePairs returns every sequence of a Move and another operation, one way and
// the other, with the first one settled and not.
func MovePairs() []Script {
	var pairs []Script
	for kind := range enumerated {
		for _, settle := range []bool{false, true} {
			pairs = append(pairs, Script{{kind, settle}, {Move, true}}, Script{{Move, settle}, {kind, true}})
		}
	}
	return pairs
}

// JournalPairs returns every sequence of two operations, those that concern the
// journal among them, with the first one settled and not.
func JournalPairs() []Script {
	kinds := []OpKind{Flood, Age, Move}
	for kind := range enumerated {
		kinds = append(kinds, kind)
	}
	var pairs []Script
	for _, first := range kinds {
		for _, second := range kinds {
			pairs = append(pairs, Script{{first, false}, {second, true}}, Script{{first, true}, {second, true}})
		}
	}
	return pairs
}

// WithMoves returns the script with a Move in the place of some operations that the
// seed draws.
func (s Script) WithMoves(seed uint64) Script {
	dice := rand.New(rand.NewPCG(seed, 8))
	moved := make(Script, len(s))
	for i, op := range s {
		if dice.IntN(6) == 0 {
			op.Kind = Move
		}
		moved[i] = op
	}
	return moved
}

// theme is how often each kind of operation comes in a random script.
type theme [opKinds]int

// The indexes of two themes that plans ask for.
const (
	segmentTheme = 1
	crashTheme   = 2
)

// themes of random scripts. A disk that fails belongs to the last one only:
// whoever looks for lost acknowledgements does not want poisoned logs.
var themes = [...]theme{
	{ // a bit of everything
		Append: 30, AppendBig: 12, Roll: 6, Flush: 5, Truncate: 4, Retain: 3, AdvanceStart: 3, Checkpoint: 6,
		Create: 2, Delete: 1, Restart: 3, Retry: 6, Read: 4, Kill: 4, Cut: 4, Pester: 3,
	},
	{ // segments come and go, and the disk is slow
		Append: 20, AppendBig: 15, Roll: 20, Flush: 3, Truncate: 4, Retain: 8, AdvanceStart: 4, Checkpoint: 3,
		Create: 4, Restart: 2, Retry: 2, Read: 2, Kill: 4, Cut: 4, Pester: 10,
	},
	{ // one crash after another, and cuts
		Append: 30, AppendBig: 10, Roll: 8, Truncate: 8, Checkpoint: 4, Create: 3, Delete: 2, Restart: 4,
		Retry: 8, Kill: 12, Cut: 12, Pester: 4,
	},
	{ // the disk fails
		Append: 30, AppendBig: 12, Roll: 6, Flush: 5, Truncate: 3, Retain: 2, AdvanceStart: 2, Checkpoint: 5,
		Create: 2, Delete: 1, Restart: 4, Retry: 4, Read: 4, Kill: 4, Cut: 4, Pester: 2, Fail: 12,
	},
}

// The themes of scripts around the journal.
var (
	// The ring is filled, trimmed and wraps while logs come, go, roll, move and are cut.
	trimTheme = theme{
		Flood: 30, Append: 12, AppendBig: 4, Age: 6, Pass: 10, Roll: 8, Truncate: 7, Retain: 2, AdvanceStart: 2, Checkpoint: 2,
		Create: 5, Delete: 3, Move: 5, Restart: 2, Kill: 5, Cut: 5, Retry: 3, Pester: 5,
	}
	// Frames are on their way, and soon after a crash there is another one.
	frameTheme = theme{
		Flood: 14, Append: 24, AppendBig: 6, Age: 3, Roll: 5, Truncate: 5, Create: 6, Cut: 14, Kill: 4, Restart: 3, Pester: 3,
	}
	// Much comes while the disk is slow, or fails at what makes room.
	slowTheme = theme{Flood: 30, Append: 8, Pester: 6, Fail: 6, Create: 6, Roll: 3, Cut: 4, Kill: 3, Restart: 2}
	// The same on a disk that fails.
	failTheme = theme{
		Flood: 24, Append: 12, AppendBig: 4, Age: 6, Pass: 8, Roll: 6, Truncate: 3, Checkpoint: 2,
		Create: 5, Delete: 1, Move: 2, Restart: 6, Kill: 3, Cut: 3, Pester: 3, Fail: 14,
	}
)

// Random draws a script of length operations; the theme goes by the seed.
func Random(seed uint64, length int) Script {
	return themes[seed%uint64(len(themes))].script(seed, length)
}

// script draws length operations.
func (weights theme) script(seed uint64, length int) Script {
	dice := rand.New(rand.NewPCG(seed, 1))
	total := 0
	for _, weight := range weights {
		total += weight
	}
	script := make(Script, length)
	for i := range script {
		n := dice.IntN(total)
		for kind, weight := range weights {
			if n -= weight; n < 0 {
				script[i] = Op{OpKind(kind), dice.IntN(3) == 0}
				break
			}
		}
	}
	return script
}
