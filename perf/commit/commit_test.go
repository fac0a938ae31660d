package commit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ringlog/buffer"
	"ringlog/engine"
	"ringlog/engine/disk"
	"ringlog/engine/disk/backend"
	"ringlog/perf"
	"ringlog/record"
	"ringlog/replica"
)

// small is a run that a test can wait for.
func small(t *testing.T, system System) Options {
	return Options{
		System: system, DataDir: t.TempDir(), Partitions: 5, RecordBytes: 700, InFlight: 2,
		WarmUp: 10 * time.Millisecond, Duration: 60 * time.Millisecond,
		JournalBytes: 4 << 20, SpaceBytes: 64 << 20, TailBytes: 16 << 20,
	}
}

// Each system answers what was submitted, under both promises and on both kinds of
// disk; the report adds up; and nothing is left behind.
func TestEverySystemAddsUp(t *testing.T) {
	for _, system := range systems {
		for _, durability := range []perf.Durability{perf.Durable, perf.Written} {
			for _, io := range []string{backend.Auto, backend.Portable} {
				t.Run(string(system)+" "+string(durability)+" "+io, func(t *testing.T) {
					o := small(t, system)
					o.Durability, o.Disk = durability, io
					r, err := Run(t.Context(), o)
					if err != nil {
						t.Fatal(err)
					}
					if r.AppendsInFlight != 10 || r.BatchBytes != 700 || r.Appends == 0 || r.TotalAppends < r.Appends+int64(r.GroupAppends) {
						t.Errorf("%d of %d bytes in flight, %d appends of %d counted", r.AppendsInFlight, r.BatchBytes, r.Appends, r.TotalAppends)
					}
					if r.Bytes != 700*r.Appends || r.Latency == nil || r.Latency.Count != r.Appends {
						t.Errorf("%d appends have %d bytes and the latencies %+v", r.Appends, r.Bytes, r.Latency)
					}
					// What Direct commits is flushes; what the engine flushes of relaxed logs is its own affair.
					if durability == perf.Durable || system != Engine && system != Direct {
						if r.Commits == 0 {
							t.Error("no commits")
						}
					} else if system == Direct && r.Commits != 0 {
						t.Errorf("%d commits without a flush", r.Commits)
					}
					// What is in flight at the beginning and at the end may be counted on one side only.
					if edge := int64(2 * r.AppendsInFlight * r.BatchBytes); r.DeviceBytes+edge < r.Bytes {
						t.Errorf("%d bytes were written for %d", r.DeviceBytes, r.Bytes)
					}
					if figures := r.Engine; (figures != nil) != (system == Engine) || figures != nil && figures.AppendBytes < r.Bytes {
						t.Errorf("%d bytes were appended, and the engine says %+v", r.Bytes, figures)
					}
					if left, err := os.ReadDir(o.DataDir); err != nil || len(left) > 0 {
						t.Errorf("left behind: %v, %v", left, err)
					}
				})
			}
		}
	}
}

// A raw program may also take all that waits into each commit, or take slices
// in turn where not everything may be in flight.
func TestOtherShapesAddUp(t *testing.T) {
	for _, system := range systems {
		o := small(t, system)
		o.Serial, o.Groups, o.Partitions, o.RecordBytes = true, 3, 7, 5000
		r, err := Run(t.Context(), o)
		if err != nil || r.Appends == 0 {
			t.Errorf("%s, serial: %d appends, %v", system, r.Appends, err)
		}
		o = small(t, system)
		o.InFlight, o.InFlightBytes = 1, 3*700
		r, err = Run(t.Context(), o)
		if err != nil || r.AppendsInFlight > 3 || r.Appends == 0 || !strings.Contains(strings.Join(r.Notes, "\n"), "instead of 5") {
			t.Errorf("%s, in turn: %d in flight, %d appends, %v, %v", system, r.AppendsInFlight, r.Appends, r.Notes, err)
		}
	}
}

// The engine adds up with a journal, without, and with a flush of each file, and
// uses the journal when it has one.
func TestEveryWayOfTheEngineAddsUp(t *testing.T) {
	for _, way := range ways {
		o := small(t, Engine)
		o.Way = way
		r, err := Run(t.Context(), o)
		if err != nil || r.Appends == 0 {
			t.Errorf("%s: %d appends, %v", way, r.Appends, err)
			continue
		}
		if used := r.Engine.Frames > 0; used != (way == Auto) {
			t.Errorf("%s: %d frames", way, r.Engine.Frames)
		}
	}
}

// Groups whose logs are on several shards are answered as one.
func TestSeveralShardsAddUp(t *testing.T) {
	o := small(t, Engine)
	o.Shards, o.TailBytes = 2, 32<<20
	r, err := Run(t.Context(), o)
	if err != nil || r.Appends == 0 || r.Commits == 0 {
		t.Errorf("%d appends, %d commits, %v", r.Appends, r.Commits, err)
	}
}

// kept runs o and returns where its files are.
func kept(t *testing.T, o Options) (Report, string) {
	t.Helper()
	o.Keep = true
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(o.DataDir, "commit-*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	return r, found[0]
}

// What the engine answered is what another start finds: dense offsets from 0 in
// each log, as many as there were answers.
func TestWhatTheEngineAnsweredIsThere(t *testing.T) {
	o := small(t, Engine)
	o.SegmentBytes = 32 << 20 // retention takes nothing away
	r, directory := kept(t, o)
	tail, cold := buffer.NewPool("tail", 8<<20), buffer.NewPool("cold", 16<<20)
	e, err := engine.New(engine.Options{
		OpenDisk: func() (disk.Disk, error) { return backend.Open(directory, backend.Portable, backend.Options{}) },
		Tail:     tail, Cold: cold,
	})
	if err != nil {
		t.Fatal(err)
	}
	found := int64(0)
	for i := range o.Partitions {
		l, err := e.Open(t.Context(), engine.LogSpec{ID: logID(i), Label: "read back", Replica: replica.New(replica.Options{})})
		if err != nil {
			t.Fatal(err)
		}
		next := l.Frontiers().Next
		for offset := int64(0); offset < next; {
			offset = readOn(t, e, l, offset)
		}
		found += next
	}
	if found != r.TotalAppends {
		t.Errorf("%d appends were answered, %d are there", r.TotalAppends, found)
	}
	for _, end := range []error{e.Close(context.Background()), tail.Close(), cold.Close()} {
		if end != nil {
			t.Error(end)
		}
	}
}

// readOn reads some batches of l at offset, holds their offsets against it, and
// returns what comes next.
func readOn(t *testing.T, e *engine.Engine, l *engine.Log, offset int64) int64 {
	t.Helper()
	done := make(chan struct{})
	read := &engine.Read{
		Parts:    []engine.ReadPart{{Log: l, Offset: offset, BytesMax: 1 << 20}},
		BytesMax: 1 << 20, Done: func(*engine.Read) { close(done) },
	}
	e.Read(read)
	<-done
	defer read.Release()
	if err := read.Parts[0].Err; err != nil || len(read.Parts[0].Batches) == 0 {
		t.Fatalf("nothing at %d: %v", offset, err)
	}
	for _, rest := range read.Parts[0].Batches {
		for len(rest) > 0 {
			var batch record.Batch
			var err error
			if batch, rest, err = record.Next(rest); err != nil {
				t.Fatal(err)
			}
			if batch.BaseOffset() != offset || batch.Check() != nil {
				t.Fatalf("offset %d holds a batch of %d: %v", offset, batch.BaseOffset(), batch.Check())
			}
			offset++
		}
	}
	return offset
}

// What a raw program answered is in its files, whole.
func TestWhatARawProgramAnsweredIsThere(t *testing.T) {
	for _, system := range []System{Journal, Syncfs, Files, Direct} {
		o := small(t, system)
		o.JournalBytes = 32 << 20
		r, directory := kept(t, o)
		batch, err := newBatch(o.RecordBytes)
		if err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(directory, "*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		found, full := int64(0), false
		for _, path := range files {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			found += int64(bytes.Count(content, batch))
			full = full || bytes.Contains(content[len(content)-2*disk.BlockBytes:], batch)
		}
		if found != r.TotalAppends && !full {
			t.Errorf("%s: %d appends were answered, %d are there", system, r.TotalAppends, found)
		}
	}
}

// A run that is interrupted says so and takes its files away.
func TestAnInterruptedRunLeavesNothing(t *testing.T) {
	interrupted := errors.New("interrupted")
	for _, system := range systems {
		o := small(t, system)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(interrupted)
		if _, err := Run(ctx, o); !errors.Is(err, interrupted) && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", system, err)
		}
		if left, err := os.ReadDir(o.DataDir); err != nil || len(left) > 0 {
			t.Errorf("%s left behind: %v, %v", system, left, err)
		}
	}
}

// The table's script reads these names.
func TestTheReportHasItsNames(t *testing.T) {
	r, err := Run(t.Context(), small(t, Journal))
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(encoded, &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"kind", "command", "parameters", "seconds", "appends", "appends_per_s", "mb_per_s", "commits_per_s", "appends_per_commit", "bytes_per_commit",
		"first_third_appends_per_s", "last_third_appends_per_s", "commit_latency_us", "write_amplification", "resident_bytes_max", "appends_in_flight",
		"cpu", "environment",
	} {
		if _, there := fields[name]; !there {
			t.Errorf("no %s in %s", name, encoded)
		}
	}
}

// What cannot be measured is refused, with everything that is wrong.
func TestWrongOptionsAreRefused(t *testing.T) {
	_, err := Run(t.Context(), Options{System: "tape", Durability: "perhaps", RecordBytes: 10, InFlight: -1})
	for _, want := range []string{"tape", "perhaps", "record bytes 10", "-1 appends", "data directory"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	o := small(t, Files)
	o.RecordBytes = 32 << 20
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "more than the space") {
		t.Errorf("files that do not fit: %v", err)
	}
}
