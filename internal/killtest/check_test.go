package killtest

import (
	"slices"
	"testing"
)

// scene is a small history that its log agrees with: producers 1 and 2 sent
// three records each to partitions 0 and 1; all but one were acknowledged; a
// consumer saw two.
func scene() (*History, map[int32][]Record) {
	h := NewHistory()
	log := map[int32][]Record{}
	for range 3 {
		for producer := int32(1); producer <= 2; producer++ {
			name := h.Send(producer)
			at := Position{Partition: name.Producer - 1, Offset: name.Sequence}
			log[at.Partition] = append(log[at.Partition], Found(at.Offset, name.Value()))
			if name != (Name{2, 2}) {
				h.Acknowledge(name, at)
			}
			if at.Offset == 0 {
				h.See(at, name.Value())
			}
		}
	}
	return h, log
}

func TestAnHonestLogPasses(t *testing.T) {
	h, log := scene()
	if anomalies := h.Check(log, true); len(anomalies) > 0 {
		t.Fatal(anomalies)
	}
	if sent, acknowledged, seen := h.Counts(); sent != 6 || acknowledged != 5 || seen != 2 {
		t.Errorf("counted %d sent, %d acknowledged, %d seen", sent, acknowledged, seen)
	}
	// A record that was sent and not answered may be missing.
	log[1] = log[1][:2]
	if anomalies := h.Check(log, true); len(anomalies) > 0 {
		t.Fatal(anomalies)
	}
}

// TestEveryKindOfFaultIsFound plants each anomaly into the honest scene.
func TestEveryKindOfFaultIsFound(t *testing.T) {
	plants := map[Kind]func(h *History, log map[int32][]Record){
		KindLost: func(h *History, log map[int32][]Record) {
			log[0] = log[0][:2]
		},
		KindMoved: func(h *History, log map[int32][]Record) {
			log[0][1].Name, log[0][2].Name = log[0][2].Name, log[0][1].Name
		},
		KindReordered: func(h *History, log map[int32][]Record) {
			log[0][1].Name, log[0][2].Name = log[0][2].Name, log[0][1].Name
		},
		KindDuplicate: func(h *History, log map[int32][]Record) {
			log[0] = append(log[0], Record{3, log[0][2].Name, true})
		},
		KindGap: func(h *History, log map[int32][]Record) {
			log[0][2].Offset = 3
		},
		KindForeign: func(h *History, log map[int32][]Record) {
			log[0] = append(log[0], Found(3, Name{7, 0}.Value()))
		},
		KindChanged: func(h *History, log map[int32][]Record) {
			changed := log[1][2].Name.Value()
			changed[len(changed)-1] ^= 1
			log[1][2] = Found(2, changed)
		},
		KindTwoValues: func(h *History, log map[int32][]Record) {
			h.See(Position{1, 0}, Name{1, 2}.Value())
		},
		KindUnseen: func(h *History, log map[int32][]Record) {
			h.See(Position{1, 3}, h.Send(2).Value())
		},
		KindShrunk: func(h *History, log map[int32][]Record) {
			log[0] = nil
		},
	}
	for _, kind := range sortedKeys(plants) {
		t.Run(string(kind), func(t *testing.T) {
			h, log := scene()
			plants[kind](h, log)
			anomalies := h.Check(log, true)
			if !slices.ContainsFunc(anomalies, func(a Anomaly) bool { return a.Kind == kind }) {
				t.Errorf("not found; the judge says: %v", anomalies)
			}
		})
	}
}

// TestWhatIsShownLaterCounts: a value that changed under a consumer's eyes is a
// fault even when the log at the end agrees with one of the two.
func TestWhatIsShownLaterCounts(t *testing.T) {
	h, log := scene()
	log[0][0].Name = Name{1, 1}
	log[0][1].Name = Name{1, 0}
	anomalies := h.Check(log, true)
	if !slices.ContainsFunc(anomalies, func(a Anomaly) bool { return a.Kind == KindTwoValues }) {
		t.Errorf("the consumer's witness was not heard: %v", anomalies)
	}
}
