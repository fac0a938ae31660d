package plan

import (
	"math"
	"testing"
	"time"
)

// A frame is a part of the ring, so that a few of them fit beside what is needed.
func TestFrameBytes(t *testing.T) {
	for _, row := range []struct{ ring, frame int64 }{
		{JournalBytesMin, 4 * BlockBytes},
		{JournalBytesMin + BlockBytes, 4 * BlockBytes},
		{1 << 20, 128 << 10},
		{8 << 20, FrameBytesMax},
		{4 << 30, FrameBytesMax},
	} {
		if got := FrameBytes(row.ring); got != row.frame {
			t.Errorf("a ring of %d bytes: frames of %d, want %d", row.ring, got, row.frame)
		}
	}
}

func TestFramePieces(t *testing.T) {
	for _, row := range []struct{ bytes, pieces int }{
		{BlockBytes, 1}, {PieceBytes, 1}, {PieceBytes + BlockBytes, 2}, {FrameBytesMax, FramePiecesMax},
	} {
		if got := FramePieces(row.bytes); got != row.pieces {
			t.Errorf("%d bytes: %d pieces, want %d", row.bytes, got, row.pieces)
		}
	}
}

// Rule 3: a log with much to write goes direct; what is left for a frame always
// fits into half of one, so that no entry has to be split.
func TestRoute(t *testing.T) {
	for _, row := range []struct {
		bytes, unanswered, frame int64
		direct                   bool
	}{
		{1, 1, FrameBytesMax, false},
		{DirectBytes - 1, DirectBytes - 1, FrameBytesMax, false},
		{DirectBytes, DirectBytes, FrameBytesMax, true},
		{8<<10 - 1, 8<<10 - 1, 16 << 10, false},
		{8 << 10, 8 << 10, 16 << 10, true},
		// Much waits in all: so does less of one log.
		{64 << 10, 8<<20 - 1, FrameBytesMax, false},
		{64 << 10, 8 << 20, FrameBytesMax, true},
		{48<<10 - 1, 8 << 20, FrameBytesMax, false},
		{16 << 10, 32<<20 - 1, FrameBytesMax, false},
		{16 << 10, 32 << 20, FrameBytesMax, true},
		{16<<10 - 1, 1 << 40, FrameBytesMax, false},
		{8 << 10, 32 << 20, 16 << 10, true},
	} {
		if got := (Route{Bytes: row.bytes, Unanswered: row.unanswered, FrameBytes: row.frame}).Direct(); got != row.direct {
			t.Errorf("%d bytes of %d beside frames of %d: direct is %v", row.bytes, row.unanswered, row.frame, got)
		}
	}
}

func TestGather(t *testing.T) {
	const frame = 1 << 20
	for _, row := range []struct {
		name   string
		gather Gather
		start  bool
	}{
		{"nothing", Gather{FrameBytes: frame}, false},
		{"the first takes what there is", Gather{Bytes: 1, FrameBytes: frame}, true},
		{"beside it little gathers", Gather{Bytes: frame/2 - 1, InFlight: 1, FrameBytes: frame}, false},
		{"and much does not", Gather{Bytes: frame / 2, InFlight: 1, FrameBytes: frame}, true},
		{"as long as there is memory", Gather{Bytes: frame, InFlight: FramesMax, FrameBytes: frame}, false},
	} {
		if got := row.gather.Start(); got != row.start {
			t.Errorf("%s: %v", row.name, got)
		}
	}
}

// Rule 14: a trim at half, appends wait at 80 %, and what is old goes anyway.
func TestRingTrims(t *testing.T) {
	const size = 1000
	for _, row := range []struct {
		name string
		ring Ring
		trim int64
		full bool
	}{
		{"empty, whatever else", Ring{Bytes: size, Hungry: true, AgeOfOldest: time.Hour}, 0, false},
		{"below half", Ring{Bytes: size, Used: 499}, 0, false},
		{"at half: down to a fifth", Ring{Bytes: size, Used: 500}, 300, false},
		{"nearly full", Ring{Bytes: size, Used: 799}, 599, false},
		{"full", Ring{Bytes: size, Used: 800}, 600, true},
		{"an old frame: all of it", Ring{Bytes: size, Used: 10, AgeOfOldest: TrimAge}, 10, false},
		{"not so old", Ring{Bytes: size, Used: 10, AgeOfOldest: TrimAge - 1}, 0, false},
		{"memory is short: half of it at least", Ring{Bytes: size, Used: 100, Hungry: true}, 50, false},
	} {
		if trim, full := row.ring.Trim(), row.ring.Full(); trim != row.trim || full != row.full {
			t.Errorf("%s: trim %d, full %v; want %d, %v", row.name, trim, full, row.trim, row.full)
		}
	}
}

// Few logs gather large pieces, many share a quarter of the ring, and nobody writes crumbs.
func TestBackBytes(t *testing.T) {
	for _, row := range []struct {
		ring int64
		logs int
		want int64
	}{
		{512 << 20, 0, PieceBytes},
		{512 << 20, 384, PieceBytes},
		{512 << 20, 1024, 128 << 10},
		{128 << 20, 700, 44 << 10},
		{128 << 20, 10_000, 32 << 10},
		{JournalBytesMin, 1, 32 << 10},
	} {
		if got := BackBytes(row.ring, row.logs); got != row.want {
			t.Errorf("%d logs on a ring of %d bytes: %d bytes, want %d", row.logs, row.ring, got, row.want)
		}
	}
}

// Write-back does nothing while the ring is nearly empty, keeps up at a third, hurries
// when a trim waits, and never goes slower for being fuller.
func TestPace(t *testing.T) {
	const size, rate = 1000, 1 << 30
	at := func(used int64) Pace { return Pace{Ring: Ring{Bytes: size, Used: used}, JournalRate: rate} }
	for _, row := range []struct {
		name string
		pace Pace
		rate int64
	}{
		{"nearly empty", at(99), 0},
		{"a tenth: half of what comes in", at(100), rate / 2},
		{"three tenths: all of it", at(300), rate},
		{"a trim", at(500), 2 * rate},
		{"nearly stopping", at(650), 4 * rate},
		{"a trim of a ring that is nearly empty", Pace{Ring: Ring{Bytes: size, Used: 1}, JournalRate: rate, Trimming: true}, 2 * rate},
		{"nothing comes in: the floor", Pace{Ring: Ring{Bytes: size, Used: 300}}, paceFloor},
		{"a close", Pace{Ring: Ring{Bytes: size, Used: 1}, Hurry: true}, paceHurry},
	} {
		if got := row.pace.Rate(); got != row.rate {
			t.Errorf("%s: %d bytes/s, want %d", row.name, got, row.rate)
		}
	}
	for used := int64(0); used < size; used++ {
		if a, b := at(used), at(used+1); b.Rate() < a.Rate() || b.InFlightMax() < a.InFlightMax() || b.Burst() < PieceBytes {
			t.Errorf("at %d of %d: %+v, then %+v", used, size, a, b)
		}
	}
}

// What NothingBelow says, Next agrees with: nothing to reserve up to there.
func TestNothingBelow(t *testing.T) {
	const step = PrepareStepMin
	for _, p := range []Prepare{
		{SegmentBytes: 4 * step, StepBytes: step, PreparedBytes: step},
		{SegmentBytes: 4 * step, StepBytes: step, PreparedBytes: 4 * step, ComingBytes: step},
		{SegmentBytes: 4 * step, StepBytes: step, PreparedBytes: 4 * step},
		{SegmentBytes: 4 * step, StepBytes: 2 * step, PreparedBytes: 3 * step},
	} {
		below := p.NothingBelow()
		for position := int64(0); position < min(below, 4*step); position += BlockBytes {
			p.Position = position
			if space := p.Next(); space != (Space{}) {
				t.Errorf("%+v: %+v is to be reserved below %d", p, space, below)
			}
		}
	}
	if waits := (Prepare{NeedBytes: 1, SegmentBytes: step, PreparedBytes: step}); waits.NothingBelow() != 0 {
		t.Error("somebody waits, and there is nothing to reserve")
	}
	if done := (Prepare{SegmentBytes: step, PreparedBytes: step, ComingBytes: step}); done.NothingBelow() != math.MaxInt64 {
		t.Error("all is reserved, and there is something to look for")
	}
}
