package killtest

import (
	"slices"
	"testing"
)

// tableScene is a small compacted topic that agrees with its table. Of key a an old value may still be
// there; b was deleted, and its tombstone may be gone; the last one of c was not answered.
func tableScene() (*Table, map[int32][]KeyedRecord) {
	table := NewTable()
	record := func(sequence int64, key string, tombstone bool) KeyedRecord {
		name := Name{1, sequence}
		table.Send(name, Entry{key, 0, tombstone})
		if sequence != 6 {
			table.Acknowledge(name, Position{0, sequence})
		}
		return KeyedRecord{sequence, name, key, tombstone, true}
	}
	return table, map[int32][]KeyedRecord{0: {
		record(0, "a", false), record(1, "b", false), record(2, "a", false), record(3, "b", true),
		record(4, "c", false), record(5, "a", false), record(6, "c", true),
	}}
}

// without returns the log without the records at some offsets.
func without(log map[int32][]KeyedRecord, offsets ...int64) {
	log[0] = slices.DeleteFunc(log[0], func(r KeyedRecord) bool { return slices.Contains(offsets, r.Offset) })
}

func TestHonestTablesPass(t *testing.T) {
	for name, offsets := range map[string][]int64{
		"as it was written":                  {},
		"compacted":                          {0, 1, 2},
		"the tombstone is gone":              {0, 1, 2, 3},
		"what was not answered is not there": {6},
	} {
		table, log := tableScene()
		without(log, offsets...)
		for range 2 { // what was read is promised, and there
			if anomalies := table.Check(log); len(anomalies) > 0 {
				t.Errorf("%s: %v", name, anomalies)
			}
		}
	}
}

// TestEveryFaultOfATableIsFound plants each anomaly into the scene.
func TestEveryFaultOfATableIsFound(t *testing.T) {
	for name, plant := range map[string]struct {
		kind Kind
		into func(log map[int32][]KeyedRecord)
	}{
		"an older value is the last":             {KindLost, func(log map[int32][]KeyedRecord) { without(log, 5, 6) }},
		"a key is gone":                          {KindLost, func(log map[int32][]KeyedRecord) { without(log, 0, 2, 5) }},
		"the tombstone is gone before its value": {KindBack, func(log map[int32][]KeyedRecord) { without(log, 3) }},
		"the end is gone":                        {KindShrunk, func(log map[int32][]KeyedRecord) { without(log, 5, 6) }},
		"offsets fall":                           {KindReordered, func(log map[int32][]KeyedRecord) { slices.Reverse(log[0]) }},
		"one record, two offsets": {KindDuplicate, func(log map[int32][]KeyedRecord) {
			twice := log[0][6]
			twice.Offset++
			log[0] = append(log[0], twice)
		}},
		"another offset":         {KindMoved, func(log map[int32][]KeyedRecord) { without(log, 6); log[0][5].Offset = 7 }},
		"another partition":      {KindMoved, func(log map[int32][]KeyedRecord) { log[1] = log[0] }},
		"another key":            {KindChanged, func(log map[int32][]KeyedRecord) { log[0][0].Key = "b" }},
		"a tombstone of a value": {KindChanged, func(log map[int32][]KeyedRecord) { log[0][0].Tombstone = true }},
		"other bytes":            {KindChanged, func(log map[int32][]KeyedRecord) { log[0][0].Intact = false }},
		"out of thin air":        {KindForeign, func(log map[int32][]KeyedRecord) { log[0][0].Name.Sequence = 99 }},
	} {
		table, log := tableScene()
		plant.into(log)
		anomalies := table.Check(log)
		if !slices.ContainsFunc(anomalies, func(a Anomaly) bool { return a.Kind == plant.kind }) {
			t.Errorf("%s: found %v, want one that is %q", name, anomalies, plant.kind)
		}
	}
	// What a reader was shown and nobody was told of is a promise too.
	table, log := tableScene()
	table.Check(log)
	without(log, 6)
	if anomalies := table.Check(log); len(anomalies) != 1 || anomalies[0].Kind != KindBack {
		t.Errorf("a tombstone that was read is gone, and its value is there: found %v", anomalies)
	}
}
