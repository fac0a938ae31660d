package killtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Kind is a way in which a log may contradict its history.
type Kind string

const (
	KindLost      Kind = "lost"       // acknowledged, and not there
	KindMoved     Kind = "moved"      // acknowledged at one offset, found at another
	KindDuplicate Kind = "duplicate"  // one record at two offsets
	KindReordered Kind = "reordered"  // a producer's records in another order than sent
	KindGap       Kind = "gap"        // offsets that are not dense from 0
	KindForeign   Kind = "foreign"    // a record that nobody sent
	KindChanged   Kind = "changed"    // not the bytes that were sent
	KindTwoValues Kind = "two values" // one offset, two values at two times
	KindUnseen    Kind = "unseen"     // shown to a consumer, and gone
	KindBack      Kind = "back"       // deleted, and there again
	KindShrunk    Kind = "shrunk"     // the log ends before what somebody was told
)

// Anomaly is one contradiction.
type Anomaly struct {
	Kind Kind
	Text string
}

// String returns the anomaly as a line.
func (a Anomaly) String() string { return fmt.Sprintf("%s: %s", a.Kind, a.Text) }

// checker is one judgement under way. The history is locked by its caller.
type checker struct {
	history   *History
	found     map[Name]Position
	anomalies []Anomaly
}

func (c *checker) report(kind Kind, format string, arguments ...any) {
	c.anomalies = append(c.anomalies, Anomaly{kind, fmt.Sprintf(format, arguments...)})
}

// partition reads one partition through: density, bytes, uniqueness, order.
func (c *checker) partition(partition int32, records []Record, ordered bool) {
	last := map[int32]int64{} // by producer: its sequence found last
	for i, record := range records {
		at := Position{partition, record.Offset}
		if record.Offset != int64(i) {
			c.report(KindGap, "partition %d has offset %d where %d belongs", partition, record.Offset, i)
			return // everything behind would be reported again
		}
		name := record.Name
		switch sent, known := c.history.sent[name.Producer]; {
		case !record.Intact:
			c.report(KindChanged, "what is at %v was sent by nobody", at)
			continue
		case !known || name.Sequence < 0 || name.Sequence >= sent:
			c.report(KindForeign, "%v at %v was never sent", name, at)
			continue
		}
		before, again := c.found[name]
		if again && ordered {
			c.report(KindDuplicate, "%v is at %v and at %v", name, before, at)
		}
		if previous, any := last[name.Producer]; any && previous > name.Sequence && ordered && !again {
			c.report(KindReordered, "%v at %v comes after %d of the same producer", name, at, previous)
		}
		last[name.Producer] = max(last[name.Producer], name.Sequence)
		if !again {
			c.found[name] = at
		}
	}
	if told := c.history.ends[partition]; int64(len(records)) < told {
		c.report(KindShrunk, "partition %d ends at %d; somebody was told %d", partition, len(records), told)
	}
}

// acknowledged looks for every record that was answered with success.
func (c *checker) acknowledged() {
	names := slices.SortedFunc(maps.Keys(c.history.acknowledged), func(a, b Name) int {
		return cmp.Or(cmp.Compare(a.Producer, b.Producer), cmp.Compare(a.Sequence, b.Sequence))
	})
	for _, name := range names {
		promised := c.history.acknowledged[name]
		switch at, there := c.found[name]; {
		case !there:
			c.report(KindLost, "%v was acknowledged at %v", name, promised)
		case at != promised:
			c.report(KindMoved, "%v was acknowledged at %v and is at %v", name, promised, at)
		}
	}
}

// seen looks for every record that a consumer was shown.
func (c *checker) seen(log map[int32][]Record) {
	positions := slices.SortedFunc(maps.Keys(c.history.seen), func(a, b Position) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	for _, at := range positions {
		name, records := c.history.seen[at], log[at.Partition]
		if at.Offset >= int64(len(records)) {
			c.report(KindUnseen, "%v at %v was shown to a consumer", name, at)
			continue
		}
		if now := records[at.Offset].Name; now != name {
			c.report(KindTwoValues, "a consumer was shown %v at %v, where %v is now", name, at, now)
		}
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
