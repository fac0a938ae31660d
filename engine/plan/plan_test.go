package plan

import (
	"math"
	"testing"
	"time"
)

// Kafka: a segment ends at segment.bytes, at segment.ms, or when its offsets do
// not fit an index entry; an empty one never ends.
func TestRoll(t *testing.T) {
	usual := Roll{Position: 1000, BatchBytes: 100, SegmentBytes: 2000, RelativeOffset: 10, AgeMillis: 5, SegmentMillis: 100}
	for _, row := range []struct {
		name   string
		change func(r *Roll)
		due    bool
	}{
		{"room", func(*Roll) {}, false},
		{"exactly full", func(r *Roll) { r.BatchBytes = 1000 }, false},
		{"one byte more", func(r *Roll) { r.BatchBytes = 1001 }, true},
		{"too old", func(r *Roll) { r.AgeMillis = 100 }, true},
		{"last offset that fits", func(r *Roll) { r.RelativeOffset = math.MaxInt32 }, false},
		{"offset that does not fit", func(r *Roll) { r.RelativeOffset = math.MaxInt32 + 1 }, true},
		{"empty, whatever else", func(r *Roll) { *r = Roll{BatchBytes: 1 << 40, AgeMillis: 1 << 40, SegmentMillis: 1} }, false},
	} {
		r := usual
		row.change(&r)
		if r.Due() != row.due {
			t.Errorf("%s: due is %v", row.name, !row.due)
		}
	}
}

func TestRetain(t *testing.T) {
	const now, day = 1_000_000_000, 86_400_000
	// Three sealed segments of 100 bytes, a day apart, and an active one of 50.
	sealed := []Retained{
		{Bytes: 100, NextOffset: 10, MaxTimestamp: now - 3*day, AppendedMillis: now - 3*day},
		{Bytes: 100, NextOffset: 20, MaxTimestamp: now - 2*day, AppendedMillis: now - 2*day},
		{Bytes: 100, NextOffset: 30, MaxTimestamp: now - day, AppendedMillis: now - day},
	}
	usual := Retain{NowMillis: now, RetentionMillis: -1, RetentionBytes: -1, LogBytes: 350, HighWatermark: 35, Delete: true}
	for _, row := range []struct {
		name   string
		change func(r *Retain, s []Retained)
		count  int
	}{
		{"kept for ever", func(*Retain, []Retained) {}, 0},
		{"by time", func(r *Retain, _ []Retained) { r.RetentionMillis = 2*day - 1 }, 2},
		{"at the very age", func(r *Retain, _ []Retained) { r.RetentionMillis = 3 * day }, 0},
		{"by bytes: what is left must not be below the limit", func(r *Retain, _ []Retained) { r.RetentionBytes = 250 }, 1},
		{"by bytes: one byte more", func(r *Retain, _ []Retained) { r.RetentionBytes = 251 }, 0},
		{"by bytes: nothing", func(r *Retain, _ []Retained) { r.RetentionBytes = 0 }, 3},
		{"not above the high watermark", func(r *Retain, _ []Retained) { r.RetentionBytes, r.HighWatermark = 0, 19 }, 1},
		{"below the start, whatever the policy", func(r *Retain, _ []Retained) { r.Start, r.Delete = 20, false }, 2},
		{"without delete nothing by time", func(r *Retain, _ []Retained) { r.RetentionMillis, r.Delete = 0, false }, 0},
		{"a prefix: a young one keeps those after it", func(r *Retain, s []Retained) { r.RetentionMillis, s[0].AppendedMillis = day/2, now }, 0},
		{"a timestamp from the future does not pin", func(r *Retain, s []Retained) { r.RetentionMillis, s[0].MaxTimestamp = 2*day-1, now+1 }, 2},
		{"a timestamp from the past expires nothing", func(r *Retain, s []Retained) { r.RetentionMillis, s[0].MaxTimestamp = 3*day, 0 }, 0},
		{"no timestamp: the append counts", func(r *Retain, s []Retained) { r.RetentionMillis, s[0].MaxTimestamp = 2*day-1, -1 }, 2},
		{"the broker's clock was ahead", func(r *Retain, s []Retained) { r.RetentionMillis, s[0].AppendedMillis = 2*day-1, now+day }, 2},
		{"the broker's clock was ahead, and so is the producer's", func(r *Retain, s []Retained) {
			r.RetentionMillis, s[0].AppendedMillis, s[0].MaxTimestamp = 2*day-1, now+day, now+day
		}, 0},
	} {
		r, s := usual, append([]Retained(nil), sealed...)
		row.change(&r, s)
		if got := r.Count(s); got != row.count {
			t.Errorf("%s: %d segments go, want %d", row.name, got, row.count)
		}
	}
}

// After a crash nobody knows when the active segment was last appended to. It is never taken
// to be older than it is.
func TestLastAppend(t *testing.T) {
	const created, recorded, now = 1000, 1500, 5000
	for _, row := range []struct {
		name               string
		maxTimestamp, want int64
	}{
		{"an honest producer", 3000, 3000},
		{"one that stopped before the manifest was written", 1200, recorded},
		{"at the first append", created, recorded},
		{"now", now, now},
		{"a clock that is ahead", now + 1, now},
		{"a clock that is behind", created - 1, now},
		{"no record", -1, now},
	} {
		if got := LastAppend(recorded, created, row.maxTimestamp, now); got != row.want {
			t.Errorf("%s: %d, want %d", row.name, got, row.want)
		}
	}
}

func TestRollByTime(t *testing.T) {
	r := Retain{NowMillis: 1000, RetentionMillis: 300, Delete: true}
	for _, row := range []struct {
		bytes, created, segmentMillis int64
		due                           bool
	}{
		{0, 0, 1, false},
		{1, 700, 1 << 40, false},
		{1, 699, 1 << 40, true},
		{1, 899, 100, true},
		{1, 900, 100, false},
	} {
		if got := r.RollByTime(row.bytes, row.created, row.segmentMillis); got != row.due {
			t.Errorf("%+v: %v", row, got)
		}
	}
	r.Delete = false
	if r.RollByTime(1, 0, 1<<40) {
		t.Error("retention.ms rolls a log that does not delete")
	}
}

func TestPrepare(t *testing.T) {
	const step = PrepareStepMin
	usual := Prepare{SegmentBytes: 4 * step, StepBytes: step, PreparedBytes: step}
	for _, row := range []struct {
		name   string
		change func(p *Prepare)
		want   Space
	}{
		{"half of the step is left", func(p *Prepare) { p.Position = step / 2 }, Space{}},
		{"less than half is left", func(p *Prepare) { p.Position = step/2 + 1 }, Space{ActiveTo: 2 * step}},
		{"the last step ends with the segment", func(p *Prepare) { p.PreparedBytes, p.Position = 4*step-4096, 4*step-9000 }, Space{ActiveTo: 4 * step}},
		{"somebody waits for more than a step", func(p *Prepare) { p.NeedBytes = 3 * step }, Space{ActiveTo: 3 * step}},
		{"somebody waits for more than a segment", func(p *Prepare) { p.NeedBytes = 5*step + 1 }, Space{ActiveTo: 5*step + 4096}},
		{"all is reserved: the next segment", func(p *Prepare) { p.PreparedBytes, p.Position = 4*step, 1 }, Space{ComingTo: step}},
		{"all is reserved, and the next begun", func(p *Prepare) { p.PreparedBytes, p.Position, p.ComingBytes = 4*step, 1, step }, Space{}},
		{"somebody waits for the next", func(p *Prepare) { p.NeedsComing, p.NeedBytes = true, 100 }, Space{ComingTo: step}},
		{"somebody waits for more of the next", func(p *Prepare) { p.NeedsComing, p.NeedBytes, p.ComingBytes = true, 2*step, step }, Space{ComingTo: 2 * step}},
		{"the next is large enough", func(p *Prepare) { p.NeedsComing, p.NeedBytes, p.ComingBytes = true, 100, step }, Space{}},
	} {
		p := usual
		row.change(&p)
		if got := p.Next(); got != row.want {
			t.Errorf("%s: %+v, want %+v", row.name, got, row.want)
		}
	}
}

func TestPrepareStep(t *testing.T) {
	for _, row := range []struct {
		last   int64
		lasted time.Duration
		want   int64
	}{
		{0, 0, PrepareStepMin},
		{PrepareStepMin, time.Second, 2 * PrepareStepMin},
		{PrepareStepMin, 10 * time.Second, PrepareStepMin},
		{PrepareStepMax, time.Second, PrepareStepMax},
		{PrepareStepMax, time.Hour, PrepareStepMax / 2},
		{PrepareStepMin, time.Hour, PrepareStepMin},
	} {
		if got := PrepareStep(row.last, row.lasted); got != row.want {
			t.Errorf("%+v: %d", row, got)
		}
	}
}

func TestPiece(t *testing.T) {
	for _, row := range []struct {
		name  string
		piece Piece
		bytes int64
		tail  bool
	}{
		{"a busy log gathers", Piece{Bytes: PieceBytes - 1}, 0, false},
		{"until there is a piece", Piece{Bytes: PieceBytes + 5}, PieceBytes, false},
		{"an idle one writes what it has", Piece{Bytes: 3*BlockBytes + 5, Idle: true, Tail: true}, 3 * BlockBytes, false},
		{"and then its last block", Piece{Bytes: 5, Idle: true, Tail: true}, BlockBytes, true},
		{"the last block of a busy log waits", Piece{Bytes: 5}, 0, false},
		{"a full chunk goes", Piece{Bytes: 2 * BlockBytes, Sealed: true}, 2 * BlockBytes, false},
		{"the end of a segment goes", Piece{Bytes: 5, Sealed: true, Last: true}, BlockBytes, true},
		{"nothing", Piece{Idle: true, Tail: true}, 0, false},
		{"write-back leaves the last block", Piece{Bytes: 5, Idle: true}, 0, false},
	} {
		if bytes, tail := row.piece.Next(); bytes != row.bytes || tail != row.tail {
			t.Errorf("%s: %d bytes, tail %v", row.name, bytes, tail)
		}
	}
}

func TestChunkBytes(t *testing.T) {
	for _, row := range []struct {
		last   int64
		lasted time.Duration
		need   int64
		want   int64
	}{
		{0, 0, 100, 4 << 10},
		{4 << 10, time.Millisecond, 100, 16 << 10},
		{1 << 20, time.Millisecond, 100, 1 << 20},
		{1 << 20, time.Minute, 100, 256 << 10},
		{16 << 10, time.Second, 70_000, 128 << 10},
		{4 << 10, time.Second, 5 << 20, 8 << 20},
	} {
		if got := ChunkBytes(row.last, row.lasted, row.need); got != row.want {
			t.Errorf("%+v: %d", row, got)
		}
	}
}

// Rule 14: a few files, an fdatasync each; more, one syncfs.
func TestFlush(t *testing.T) {
	for _, row := range []struct {
		flush Flush
		way   Way
	}{
		{Flush{FilesMax: 2}, None}, {Flush{Logs: 1, FilesMax: 2}, None},
		{Flush{Logs: 1, Files: 1, FilesMax: 2}, EachFile}, {Flush{Logs: 2, Files: 2, FilesMax: 2}, EachFile},
		{Flush{Logs: 1, Files: 3, FilesMax: 2}, Everything}, {Flush{Logs: 3, Files: 3, FilesMax: 2}, Everything},
	} {
		if got := row.flush.Choose(); got != row.way {
			t.Errorf("%+v: %v", row.flush, got)
		}
	}
}

func TestLazy(t *testing.T) {
	for _, row := range []struct {
		name string
		lazy Lazy
		due  bool
	}{
		{"nothing", Lazy{Wanted: true, FlushMessages: 1}, false},
		{"few records", Lazy{Records: 9, FlushMessages: 10}, false},
		{"flush.messages", Lazy{Records: 10, FlushMessages: 10}, true},
		{"flush.ms", Lazy{Records: 1, FlushMessages: 10, FlushMillis: 5, AgeMillis: 5}, true},
		{"no flush.ms", Lazy{Records: 1, FlushMessages: 10, AgeMillis: 1 << 40}, false},
		{"wanted", Lazy{Records: 1, FlushMessages: 10, Wanted: true}, true},
	} {
		if got := row.lazy.Due(); got != row.due {
			t.Errorf("%s: %v", row.name, got)
		}
	}
}

// The rows of RecoveryTable in recover.go.
func TestRecoveryTable(t *testing.T) {
	const durable = 100
	ends := map[string]int64{"below": durable - 1, "at": durable, "above": durable + 1}
	type row struct {
		missing, checkpoint, end, clean string
		verdict                         Verdict
	}
	for _, row := range []row{
		{"yes", "any", "any", "any", Fence},
		{"no", "no", "any", "any", Accept},
		{"no", "yes", "below", "any", Fence},
		{"no", "yes", "at", "yes", AcceptClean},
		{"no", "yes", "at", "no", Accept},
		{"no", "yes", "above", "any", Accept},
	} {
		for _, checkpoint := range []bool{true, false} {
			for end, offset := range ends {
				for _, clean := range []bool{true, false} {
					if !matches(row.checkpoint, checkpoint) || row.end != "any" && row.end != end || !matches(row.clean, clean) {
						continue
					}
					r := Recovery{Missing: row.missing == "yes", Checkpoint: checkpoint, Durable: durable, End: offset, Clean: clean}
					if got := r.Judge(); got != row.verdict {
						t.Errorf("%+v: %v, want %v", r, got, row.verdict)
					}
				}
			}
		}
	}
}

func matches(word string, is bool) bool { return word == "any" || (word == "yes") == is }

// Rule 10: what a scan takes for the next batch.
func TestBatchFollows(t *testing.T) {
	usual := Batch{BaseOffset: 50, LastOffset: 52, Epoch: 4, Next: 50, LastEpoch: 4, Segment: 10}
	for _, row := range []struct {
		name    string
		change  func(b *Batch)
		follows bool
	}{
		{"the next one", func(*Batch) {}, true},
		{"a gap, as a flipped bit or something left behind makes it", func(b *Batch) { b.BaseOffset, b.LastOffset = 60, 61 }, false},
		{"an older one, as a reused file holds", func(b *Batch) { b.BaseOffset = 49 }, false},
		{"a newer epoch", func(b *Batch) { b.Epoch = 5 }, true},
		{"an older epoch", func(b *Batch) { b.Epoch = 3 }, false},
		{"offsets that end before they begin", func(b *Batch) { b.LastOffset = 49 }, false},
		{"too far for the segment", func(b *Batch) { b.BaseOffset, b.LastOffset = 1<<40, 1<<40+1 }, false},
	} {
		b := usual
		row.change(&b)
		if b.Follows() != row.follows {
			t.Errorf("%s: follows is %v", row.name, !row.follows)
		}
	}
}

func TestLimit(t *testing.T) {
	if got := Limit(100, 0, 1<<30); got != RoundUp(100+limitAhead) {
		t.Errorf("idle: %d", got)
	}
	if got := Limit(100, 1<<40, 1<<30); got != 1<<30 {
		t.Errorf("not behind the file's end: %d", got)
	}
}
