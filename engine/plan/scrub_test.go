package plan

import (
	"testing"
	"time"
)

// A rate holds over any second: what is due later is due when so many bytes have had their time, and
// a disk that was busy for a minute is not read faster afterwards.
func TestScrubKeepsItsRate(t *testing.T) {
	s := Scrub{BytesPerSecond: 1 << 20, Interval: time.Hour}
	due, now := 10*time.Second, 10*time.Second
	for range 8 {
		due = s.Due(due, now, 128<<10)
	}
	if due != 11*time.Second {
		t.Errorf("a mebibyte at a mebibyte a second takes until %v", due)
	}
	if due = s.Due(due, 70*time.Second, 1<<20); due != 70*time.Second {
		t.Errorf("after a minute without a read the next one is due at %v", due)
	}
}

func TestScrubPieceFollowsTheRate(t *testing.T) {
	for rate, want := range map[int64]int64{1: scrubPieceMin, 1 << 20: 128 << 10, 1 << 40: scrubPieceMax} {
		if got := (Scrub{BytesPerSecond: rate}).Piece(); got != want {
			t.Errorf("at %d bytes a second a piece has %d bytes, want %d", rate, got, want)
		}
	}
}

func TestScrubPassesDoNotOverlap(t *testing.T) {
	s := Scrub{BytesPerSecond: 1, Interval: time.Hour}
	if next := s.NextPass(time.Minute, 2*time.Minute); next != time.Hour+time.Minute {
		t.Errorf("after a short pass the next begins at %v", next)
	}
	if next := s.NextPass(time.Minute, 5*time.Hour); next != 5*time.Hour {
		t.Errorf("after a long pass the next begins at %v", next)
	}
}
