package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringlog/buffer"
	"ringlog/engine/disk"
	"ringlog/engine/disk/crash"
	"ringlog/engine/disk/portable"
	"ringlog/engine/segment"
	"ringlog/record"
)

// keyed makes a batch of one record for each "key=value"; a key alone is a tombstone.
func keyed(t testing.TB, records ...string) record.Batch {
	t.Helper()
	var b record.Builder
	b.Reset(record.BuilderOptions{})
	for _, r := range records {
		key, value, some := strings.Cut(r, "=")
		if some {
			b.Append(1_700_000_000_000, []byte(key), []byte(value))
		} else {
			b.Append(1_700_000_000_000, []byte(key), nil)
		}
	}
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return append(record.Batch(nil), batch...)
}

// compacted is a configuration under which segments are small and any dirt is compacted.
func compacted() LogConfig {
	return LogConfig{SegmentBytes: 8 << 10, IndexIntervalBytes: 512, RetentionMillis: -1, FileDeleteMillis: 1000, Compact: true, DirtyRatioMin: 0.01}
}

// fillKeys produces count records of so many keys and half a kilobyte each, and returns the table that they make.
func (r *rig) fillKeys(count, keys int) map[string]string {
	r.Helper()
	table := map[string]string{}
	for i := range count {
		key, value := fmt.Sprintf("key %d", i%keys), fmt.Sprintf("%0500d", i)
		r.produce(keyed(r, key+"="+value))
		table[key] = value
	}
	return table
}

// table is what a consumer makes of the log that reads it from its start on.
func (r *rig) table() (table map[string]string, records int) {
	r.Helper()
	table = map[string]string{}
	next := r.log.Frontiers().Start
	var reader record.Reader
	defer reader.Close()
	for _, batch := range r.readAll(next) {
		if batch.BaseOffset() != next {
			r.Fatalf("a batch at %d where %d is next", batch.BaseOffset(), next)
		}
		next = batch.LastOffset() + 1
		reader.Reset(batch)
		for reader.Next() {
			one := reader.Record()
			records++
			if table[string(one.Key)] = string(one.Value); one.Value == nil {
				delete(table, string(one.Key))
			}
		}
		if err := reader.Err(); err != nil {
			r.Fatal(err)
		}
	}
	return table, records
}

func (r *rig) status() LogStatus {
	r.Helper()
	status, err := r.step.Status(context.Background(), r.id)
	if err != nil {
		r.Fatal(err)
	}
	return status
}

// files lists the log's directory, of which it keeps what ends in suffix.
func files(d *crash.Disk, suffix string) []string {
	return slices.DeleteFunc(d.List(), func(name string) bool { return !strings.HasSuffix(name, suffix) })
}

func TestCompactionKeepsTheNewestRecordOfEachKey(t *testing.T) {
	r, d := crashRig(t, compacted(), nil)
	want := r.fillKeys(100, 7)
	before := r.status()
	r.pass(2 * defaultCleanInterval)
	after := r.status()
	m := r.metrics()
	if m.Cleans == 0 || m.CleanDropped == 0 || after.Cleaned == 0 || len(after.Segments) >= len(before.Segments) || after.Bytes >= before.Bytes/2 {
		t.Fatalf("%d passes dropped %d records: %d segments of %d bytes became %d of %d, clean below %d",
			m.Cleans, m.CleanDropped, len(before.Segments), before.Bytes, len(after.Segments), after.Bytes, after.Cleaned)
	}
	if m.CompactedLogs != 1 || m.Uncleanable != 0 {
		t.Errorf("%d compacted logs, %d uncleanable", m.CompactedLogs, m.Uncleanable)
	}
	got, records := r.table()
	if !maps.Equal(got, want) || records >= 100 {
		t.Errorf("%d records make another table: %v", records, got)
	}
	// What a segment loses at its end, another reader must not stumble over.
	for offset := range int64(100) {
		if batches, err := r.read(offset, 1); err != nil || len(batches) != 1 || batches[0].LastOffset() < offset {
			t.Fatalf("read at %d: %v, %v", offset, batches, err)
		}
	}
	if logs := files(d, segment.LogSuffix); len(logs) != len(after.Segments) {
		t.Errorf("the log has %d segments, its directory %v", len(after.Segments), logs)
	}
	r.again(d, 5)
	if got, again := r.table(); !maps.Equal(got, want) || again != records {
		t.Errorf("after a restart %d records, %d before", again, records)
	}
	if again := r.status(); again.Cleaned != after.Cleaned {
		t.Errorf("clean below %d, and %d before the restart", again.Cleaned, after.Cleaned)
	}
	r.close()
}

// A log that nothing is appended to after a restart is compacted all the same.
func TestQuietLogIsCompactedAfterARestart(t *testing.T) {
	config := compacted()
	config.SegmentMillis = 5000
	r, d := crashRig(t, config, func(o *Options) { o.JournalBytes, o.RetentionInterval = JournalBytesMin, time.Second })
	want := r.fillKeys(12, 3)
	r.pass(7 * time.Second) // the segment is ended, and what it has is in the journal
	if r.metrics().Rolls == 0 {
		t.Fatal("the active segment stays")
	}
	r.again(d, 7)
	r.pass(3 * defaultCleanInterval)
	table, records := r.table()
	if m := r.metrics(); m.Cleans == 0 || !maps.Equal(table, want) || records != 3 {
		t.Errorf("%d passes left %d records of %d keys", m.Cleans, records, len(table))
	}
}

// A tombstone stays for delete.retention.ms after the pass that was the first to keep it, which
// is written in its batch; then it goes, although nothing else is to be compacted.
func TestTombstonesGoWhenTheirTimeIsUp(t *testing.T) {
	config := compacted()
	config.TombstoneMillis = 60_000
	r, _ := crashRig(t, config, nil)
	r.produce(keyed(t, "gone=1", "stays=1"))
	r.produce(keyed(t, "gone"))
	r.fillKeys(30, 3)
	r.pass(2 * defaultCleanInterval)
	find := func() (tombstones int, horizon int64) {
		for _, batch := range r.readAll(0) {
			if at, has := batch.DeleteHorizon(); has {
				tombstones, horizon = tombstones+1, at
			}
		}
		return tombstones, horizon
	}
	tombstones, horizon := find()
	if tombstones != 1 || horizon < r.millis-30_000+60_000 || horizon > r.millis+60_000 {
		t.Fatalf("%d tombstones, until %d; now is %d", tombstones, horizon, r.millis)
	}
	r.pass(30 * time.Second)
	if n, at := find(); n != 1 || at != horizon {
		t.Errorf("%d tombstones, until %d, before their time is up", n, at)
	}
	r.pass(60 * time.Second)
	if n, _ := find(); n != 0 {
		t.Errorf("%d tombstones after their time", n)
	}
	if table, _ := r.table(); table["stays"] != "1" || len(table) != 4 {
		t.Errorf("%v", table)
	}
}

// min.compaction.lag.ms keeps what is younger as it is; max.compaction.lag.ms has it compacted
// however little there is of it, and has the active segment ended for it.
func TestCompactionWaitsAndDoesNotWaitForLong(t *testing.T) {
	config := compacted()
	config.CompactionLagMinMillis, config.CompactionLagMaxMillis, config.DirtyRatioMin = 120_000, 600_000, 1
	r, _ := crashRig(t, config, func(o *Options) { o.RetentionInterval = 10 * time.Second })
	want := r.fillKeys(40, 3)
	r.pass(100 * time.Second)
	if m := r.metrics(); m.Cleans != 0 {
		t.Fatalf("%d passes over records that are to stay for two minutes", m.Cleans)
	}
	r.pass(400 * time.Second)
	if m := r.metrics(); m.Cleans != 0 || m.DirtyRatioMax != 1 {
		t.Fatalf("%d passes at a dirty ratio of %v, which is to be passed", m.Cleans, m.DirtyRatioMax)
	}
	r.pass(200 * time.Second)
	if m := r.metrics(); m.Cleans == 0 || m.CleanOverdue != 0 {
		t.Fatalf("%d passes after max.compaction.lag.ms, overdue by %v", m.Cleans, m.CleanOverdue)
	}
	if table, records := r.table(); !maps.Equal(table, want) || records != 3 {
		t.Errorf("%d records, %d keys", records, len(table))
	}
	config.Compact = false
	if err := r.step.Configure(context.Background(), r.id, config); err != nil {
		t.Fatal(err)
	}
	before := r.metrics().Cleans
	r.fillKeys(40, 3)
	r.pass(3 * time.Minute)
	if m := r.metrics(); m.CompactedLogs != 0 || m.Cleans != before {
		t.Errorf("%d passes, of %d logs, after the policy was changed", m.Cleans, m.CompactedLogs)
	}
}

// Keys that do not fit into their memory are mapped in several passes, and the log ends up clean.
func TestCompactionWorksInPasses(t *testing.T) {
	r, _ := crashRig(t, compacted(), func(o *Options) { o.CleanKeyBytes = 1 }) // the smallest table: 896 keys
	want := map[string]string{}
	for i := range 40 {
		var records []string
		for k := range 50 {
			key := fmt.Sprintf("key %d", (i*50+k)%1900)
			records = append(records, key+fmt.Sprintf("=%d", i))
			want[key] = fmt.Sprint(i)
		}
		r.produce(keyed(t, records...))
	}
	r.pass(2 * defaultCleanInterval)
	if m := r.metrics(); m.Cleans < 2 {
		t.Fatalf("%d passes", m.Cleans)
	}
	if table, _ := r.table(); !maps.Equal(table, want) {
		t.Errorf("%d keys, want %d", len(table), len(want))
	}
	if status := r.status(); status.Cleaned < status.Segments[len(status.Segments)-1].BaseOffset {
		t.Errorf("clean below %d: %+v", status.Cleaned, status.Segments)
	}
}

// An answer that waits for its consumer is finished from the old file, which stays for as long; who
// reads ahead goes on in the new one.
func TestReadersGoOnOverASwap(t *testing.T) {
	config := compacted()
	config.FileDeleteMillis = 60_000
	r, d := crashRig(t, config, nil)
	r.fillKeys(60, 3)
	d = r.again(d, 3) // nothing of it is in memory
	done := false
	read := &Read{Parts: []ReadPart{{Log: r.log, BytesMax: 20 << 10}}, BytesMax: 20 << 10, Done: func(*Read) { done = true }}
	r.step.Read(read)
	r.settle()
	if p := &read.Parts[0]; !done || p.Err != nil || len(p.Batches) == 0 {
		t.Fatalf("answered: %v, %v", done, p.Err)
	}
	var want []byte
	for _, slice := range read.Parts[0].Batches {
		want = append(want, slice...)
	}
	behind := &Read{Parts: []ReadPart{{Log: r.log, Offset: 5, BytesMax: 1 << 10}}, BytesMax: 1 << 10}
	if _, err := r.readWith(behind); err != nil { // a stream that goes on at the next offset
		t.Fatal(err)
	}
	r.pass(2 * defaultCleanInterval)
	if r.metrics().SegmentsCleaned == 0 {
		t.Fatal("nothing was compacted")
	}
	if old := files(d, "00000.log"); !slices.Contains(old, r.path(segment.FileName(0, segment.LogSuffix))) {
		t.Fatalf("the first segment is gone, and an answer needs it: %v", old)
	}
	read.Return(0, 0)
	if !r.step.spare.giveUp() {
		t.Fatal("an answer that waits gives nothing up")
	}
	var got []byte
	for k := range read.Parts[0].Batches {
		if !read.Lend(0, k) {
			r.step.Restore(read, 0, k, func(err error) {
				if err != nil {
					t.Error(err)
				}
			})
			r.settle()
			if !read.Lend(0, k) {
				t.Fatal("a piece is gone")
			}
		}
		got = append(got, read.Parts[0].Batches[k]...)
	}
	if !bytes.Equal(got, want) {
		t.Error("the answer has other bytes than it had")
	}
	read.Release()
	if table, _ := r.table(); len(table) != 3 {
		t.Errorf("%d keys", len(table))
	}
	r.pass(time.Second)
	if old := files(d, segment.FileName(0, segment.LogSuffix)); len(old) != 0 {
		t.Errorf("nobody needs %v any more", old)
	}
}

// A log that cannot be compacted says so, is counted, and is tried again; nothing else of it suffers.
func TestUncleanableLogIsCountedAndTriedAgain(t *testing.T) {
	for name, fault := range map[string]crash.Fault{
		"write":  {Kind: disk.Write, Path: "*/*.*.log", Err: syscall.EIO, Times: 1},
		"flush":  {Kind: disk.Flush, Path: "*/*.*.log", Err: syscall.EIO, Times: 1},
		"space":  {Kind: disk.Write, Path: "*/*.*.log", Err: syscall.ENOSPC, Times: 1},
		"handle": {Kind: disk.Open, Path: "*/*.*.log", Err: syscall.EMFILE, Times: 1},
	} {
		t.Run(name, func(t *testing.T) {
			r, d := crashRig(t, compacted(), nil)
			want := r.fillKeys(60, 3)
			d.AddFault(fault)
			r.pass(2 * defaultCleanInterval)
			m, status := r.metrics(), r.status()
			if m.Uncleanable != 1 || m.CleanFailures != 1 || m.Cleans != 0 || !errors.Is(status.Uncleanable, fault.Err) || status.Err != nil {
				t.Fatalf("%d failures, %d passes, %d uncleanable: %v, %v", m.CleanFailures, m.Cleans, m.Uncleanable, status.Uncleanable, status.Err)
			}
			if left := slices.DeleteFunc(files(d, segment.LogSuffix), func(n string) bool { return strings.Count(n, ".") < 2 }); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
			r.produce(keyed(t, "another=1"))
			r.pass(cleanRetryMin + 2*defaultCleanInterval)
			if m, status := r.metrics(), r.status(); m.Uncleanable != 0 || m.Cleans == 0 || status.Uncleanable != nil {
				t.Errorf("after another try: %d uncleanable, %d passes, %v", m.Uncleanable, m.Cleans, status.Uncleanable)
			}
			want["another"] = "1"
			if table, _ := r.table(); !maps.Equal(table, want) {
				t.Errorf("%v", table)
			}
		})
	}
}

// Damage is not copied, nor cut away: the log stays as it is, and what is intact is read.
func TestDamagedBatchesAreNotCompacted(t *testing.T) {
	r, d := crashRig(t, compacted(), nil)
	r.fillKeys(60, 60)
	d = r.again(d, 3)
	if err := d.Corrupt(r.path(segment.FileName(0, segment.LogSuffix)), 700, 1); err != nil {
		t.Fatal(err)
	}
	segments := len(r.status().Segments)
	r.pass(4 * defaultCleanInterval)
	m, status := r.metrics(), r.status()
	if m.Uncleanable != 1 || m.Corruptions != 1 || m.Cleans != 0 || len(status.Segments) != segments || !errors.Is(status.Uncleanable, ErrCorrupt) {
		t.Errorf("%d uncleanable, %d corruptions, %d passes, %d segments of %d: %v", m.Uncleanable, m.Corruptions, m.Cleans, len(status.Segments), segments, status.Uncleanable)
	}
	if _, err := r.read(1, 1<<10); !errors.Is(err, ErrCorrupt) {
		t.Errorf("the damaged batch: %v", err)
	}
	if got, err := r.read(status.Segments[1].BaseOffset, 1<<10); err != nil || len(got) == 0 {
		t.Errorf("behind it: %v", err)
	}
}

// Compaction takes no more of the disk than it may, and is nobody's reason to wait.
func TestCompactionIsPacedAndGivesWay(t *testing.T) {
	slow := func(o *Options) { o.CleanBytesPerSecond = 4 << 10 }
	config := compacted()
	config.Delete = true
	t.Run("rate", func(t *testing.T) {
		r, _ := crashRig(t, config, slow)
		r.fillKeys(60, 3)
		r.pass(defaultCleanInterval + 4*time.Second)
		m := r.metrics()
		if moved := m.CleanReadBytes + m.CleanWriteBytes; moved == 0 || moved > 4*(4<<10)+2*(8<<10) {
			t.Errorf("%d bytes in four seconds at 4 KiB/s", moved)
		}
		r.pass(2 * time.Minute)
		if table, _ := r.table(); len(table) != 3 || r.metrics().Cleans == 0 {
			t.Errorf("%d keys, %d passes in the end", len(table), r.metrics().Cleans)
		}
	})
	for name, ends := range map[string]func(r *rig) error{
		"close":    func(r *rig) error { return r.step.Close(context.Background()) },
		"delete":   func(r *rig) error { return r.step.Delete(context.Background(), r.id) },
		"truncate": func(r *rig) error { return r.step.Truncate(context.Background(), r.id, 3) },
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := crashRig(t, config, slow)
			r.fillKeys(60, 3)
			r.pass(defaultCleanInterval + time.Second)
			if !r.step.shards[0].cleaner.running {
				t.Fatal("no pass is under way")
			}
			if err := ends(r); err != nil {
				t.Fatal(err)
			}
			if in := r.cold.InUseBytes(); in != 0 || r.metrics().Cleans != 0 {
				t.Errorf("%d bytes of memory held, %d passes", in, r.metrics().Cleans)
			}
		})
	}
	t.Run("retention", func(t *testing.T) {
		r, _ := crashRig(t, config, slow)
		r.fillKeys(60, 3)
		r.pass(defaultCleanInterval + time.Second)
		if err := r.step.AdvanceStart(context.Background(), r.id, 40); err != nil {
			t.Fatal(err)
		}
		r.pass(2 * time.Minute)
		status := r.status()
		if status.Segments[0].NextOffset <= 40 || status.Err != nil || r.metrics().CleanFailures != 0 {
			t.Errorf("%+v", status)
		}
		if table, _ := r.table(); len(table) != 3 {
			t.Errorf("%d keys", len(table))
		}
	})
}

// A log that moves stops what compacts it, and takes along what is known of that.
func TestCompactedLogMoves(t *testing.T) {
	r := newRig(t)
	r.config = compacted()
	r.tune = func(o *Options) { o.Shards, o.CleanBytesPerSecond = 2, 8<<10 }
	r.start()
	r.open()
	want := r.fillKeys(60, 3)
	r.pass(defaultCleanInterval + time.Second)
	from := int(r.log.home.Load())
	if !r.step.shards[from].cleaner.running {
		t.Fatal("no pass is under way")
	}
	if err := r.step.Move(context.Background(), r.id, 1-from); err != nil {
		t.Fatal(err)
	}
	if r.step.shards[from].cleaner.running || r.metrics().CleanFailures != 0 {
		t.Error("the pass goes on where the log is no more")
	}
	r.pass(2 * time.Minute)
	if table, _ := r.table(); !maps.Equal(table, want) || r.metrics().Cleans == 0 {
		t.Errorf("%d keys, %d passes at the new place", len(table), r.metrics().Cleans)
	}
	r.close()
}

// With threads, a pass computes beside them, while records come.
func TestCompactionBesideTheShardsThread(t *testing.T) {
	tail, cold := buffer.NewPool("tail", 8<<20), buffer.NewPool("cold", 8<<20)
	root := t.TempDir()
	e, err := New(Options{
		OpenDisk: func() (disk.Disk, error) { return portable.New(root, portable.Options{Workers: 2}) },
		Tail:     tail, Cold: cold, CleanInterval: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := e.Create(t.Context(), LogSpec{ID: LogID{1}, Label: "keys-0", Config: compacted(), Replica: new(aloneReplica)})
	if err == nil {
		err = e.Lead(t.Context(), LogID{1}, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	w := &waiter{answered: make(chan struct{}, 1)}
	deadline := time.Now().Add(time.Minute)
	for i := 0; i < 200 || e.Metrics().CleanDropped < 100; i++ {
		w.consumed.Store(0)
		w.Owner, w.Appends = w, []Append{{Log: l, Batch: keyed(t, fmt.Sprintf("key %d=%0500d", i%3, i))}}
		e.Append(&w.AppendGroup)
		<-w.answered
		if err := w.Appends[0].Err; err != nil || time.Now().After(deadline) {
			t.Fatalf("%v, %+v", err, e.Metrics())
		}
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m := e.Metrics(); m.CleanFailures != 0 {
		t.Errorf("%d passes failed", m.CleanFailures)
	}
	for _, pool := range []*buffer.Pool{tail, cold} {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	}
}
