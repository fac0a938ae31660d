package engine

import (
	"context"
	"testing"
	"time"
)

// metrics reads the counters of the only shard.
func (r *rig) metrics() Metrics { return r.step.Metrics() }

// What is counted of a journal adds up: each batch on the way that it took, dirty bytes
// until the segments have them, the fill until a trim, the oldest entry's age, and
// all that the device was given.
func TestMetricsOfTheJournal(t *testing.T) {
	r := newRig(t)
	r.now = time.Second
	r.tune = func(o *Options) { o.JournalBytes = 2 << 20 }
	r.start()
	made := r.metrics()
	if made.JournalBytes != 2<<20 || made.PreparedBytes != 2<<20 || made.Frames != 0 || made.JournalAppends != 0 {
		t.Errorf("of a journal that was just made: %+v", made)
	}
	r.open()
	const batches, size = 20, 5000
	bytes := int64(0)
	for seed := range batches {
		b := batchOf(uint64(seed), 1, size, 1)
		bytes += int64(len(b))
		r.produce(b)
	}
	m := r.metrics()
	if m.Appends != batches || m.JournalAppends != batches || m.AppendBytes != bytes || m.JournalAppendBytes != bytes {
		t.Errorf("%d small appends of %d bytes: %+v", batches, bytes, m)
	}
	if m.Frames == 0 || m.FrameEntries < m.Frames || m.FrameBytes < bytes || m.Commits == 0 || m.CommitTimes.Count() != m.Commits {
		t.Errorf("frames and commits: %+v", m)
	}
	if m.DirtyBytes+m.BackBytes < bytes || m.DirtyBytes > bytes || m.JournalUsedBytes < m.FrameBytes {
		t.Errorf("%d dirty bytes, %d written back, %d of the journal used, after %d bytes", m.DirtyBytes, m.BackBytes, m.JournalUsedBytes, bytes)
	}
	if m.JournalUsedBytes > m.JournalBytes || m.Trims != 0 || m.Flushes != m.FlushTimes.Count() {
		t.Errorf("before a trim: %+v", m)
	}

	large := batchOf(99, 1, 600<<10, 1)
	r.produce(large)
	m = r.metrics()
	if m.Appends != batches+1 || m.JournalAppends != batches || m.DirtyBytes != 0 {
		t.Errorf("a large append goes direct, with what is dirty before it: %+v", m)
	}

	r.produce(batchOf(100, 1, size, 1))
	r.now += 3 * time.Second
	if got := r.metrics().OldestJournaled; got < 3*time.Second {
		t.Errorf("the oldest frame is needed since %v", got)
	}
	r.pass(20 * time.Second)
	m = r.metrics()
	if m.Trims == 0 || m.DirtyBytes != 0 || m.JournalUsedBytes != 0 || m.OldestJournaled != 0 || m.BackBytes == 0 || m.BackBytes > m.WriteBytes {
		t.Errorf("after a trim: %+v", m)
	}
	if got, least := m.DeviceBytes(), m.AppendBytes+m.JournalAppendBytes+m.PreparedBytes; got < least {
		t.Errorf("the device was given %d bytes, of which %d are known", got, least)
	}
	r.close()
}

// Bytes that will never be written are not dirty: of a log that is deleted, and of
// one that is poisoned.
func TestNobodyWritesWhatIsGone(t *testing.T) {
	for name, end := range map[string]func(r *rig){
		"deleted": func(r *rig) {
			if err := r.step.Delete(context.Background(), r.id); err != nil {
				r.Fatal(err)
			}
		},
		"poisoned": func(r *rig) { r.log.fail(errNoSpaceOnDevice) },
		"cut": func(r *rig) {
			if err := r.step.Truncate(context.Background(), r.id, 0); err != nil {
				r.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.tune = func(o *Options) { o.JournalBytes = 2 << 20 }
			r.start()
			r.open()
			r.produce(batchOf(1, 1, 5000, 1))
			if r.metrics().DirtyBytes == 0 {
				t.Fatal("a small append is dirty until it is written back")
			}
			end(r)
			if got := r.metrics().DirtyBytes; got != 0 {
				t.Errorf("%d bytes are dirty", got)
			}
			r.close()
		})
	}
}

// Relaxed logs are counted apart, and a poisoned shard says so.
func TestMetricsOfPromises(t *testing.T) {
	r := newRig(t)
	r.tune = func(o *Options) { o.JournalBytes = 2 << 20 }
	r.config.FlushMessages = 1000
	r.start()
	r.open()
	r.produce(batchOf(1, 1, 5000, 1))
	if m := r.metrics(); m.RelaxedAppends != 1 || m.Appends != 1 || m.PoisonedShards != 0 {
		t.Errorf("%+v", m)
	}
	r.step.shards[0].poison(errNoSpaceOnDevice)
	if m := r.metrics(); m.PoisonedShards != 1 || m.PoisonedLogs != 1 {
		t.Errorf("of a poisoned shard: %+v", m)
	}
	r.crash()
}
