package engine

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"ringlog/engine/disk"
	"ringlog/engine/disk/crash"
	"ringlog/engine/segment"
	"ringlog/record"
)

// fillDisk produces until the disk takes no more, and returns what was acknowledged.
func (r *rig) fillDisk() []record.Batch {
	r.Helper()
	var all []record.Batch
	for i := uint64(0); i < 5000; i++ {
		b := batchOf(i, 1, 1000, 1)
		p := r.submit(b)
		for range 20 { // a segment that cannot be named holds its answers back
			r.settle()
			if p.answered == 1 {
				break
			}
			r.pass(100 * time.Millisecond)
		}
		switch {
		case p.answered == 0 || errors.Is(p.Appends[0].Err, ErrNoSpace):
			return all
		case p.Appends[0].Err != nil:
			r.Fatal(p.Appends[0].Err)
		}
		all = append(all, b)
	}
	r.Fatal("the disk never was full")
	return nil
}

// Scenario 14 and rule 8, the whole life of a full disk: produces are refused, readers
// and DeleteRecords are not, it can be started again and again, though each start
// writes the checkpoint, and produces go on when there is space.
func TestFullDiskIsStartedAgain(t *testing.T) {
	for extra := int64(0); extra < 8; extra++ { // the disk is full at another file each time
		r := newRig(t)
		d := crash.New(crash.Options{Seed: 4, BytesMax: 1<<20 + *journalBytes + extra*disk.BlockBytes})
		r.config = LogConfig{SegmentBytes: 64 << 10, FileDeleteMillis: 1}
		r.on(d)
		r.start()
		r.open()
		all := r.fillDisk()
		r.expect(all, r.readAll(0)[:len(all)])
		for seed := range uint64(4) {
			d = r.again(d, seed)
			r.pass(3 * time.Second) // the clocks try what they have to try
			if got := r.readAll(0); len(got) < len(all) {
				t.Fatalf("start %d on a full disk: %d batches of %d", seed, len(got), len(all))
			}
		}
		if err := r.step.AdvanceStart(context.Background(), r.id, r.log.Frontiers().HighWatermark); err != nil {
			t.Fatalf("DeleteRecords on a full disk: %v", err)
		}
		r.pass(5 * time.Second)
		r.fill(10, 1000)
		if content, err := d.ReadFile(segment.ReserveName(0)); err != nil || len(content) < reserveBytesMin {
			t.Fatalf("the reserve is not made again: %d bytes, %v", len(content), err)
		}
		r.close()
	}
}

// The reserve is used when nothing else makes room, no log gets space before it
// is back, and then all do.
func TestReserveIsGivenAndComesBack(t *testing.T) {
	r, d := crashRig(t, LogConfig{SegmentBytes: 64 << 10}, nil)
	r.fill(5, 1000)
	if r.step.shards[0].reserve.bytes != reserveBytesMin {
		t.Fatalf("%d bytes in reserve", r.step.shards[0].reserve.bytes)
	}
	full := d.AddFault(crash.Fault{Kind: disk.Write, Path: segment.CheckpointName(0) + segment.NewSuffix, Times: 1, Err: syscall.ENOSPC})
	none := d.AddFault(crash.Fault{Kind: disk.Preallocate, Err: syscall.ENOSPC})
	r.pass(6 * time.Second) // a checkpoint
	if full.Fired() != 1 {
		t.Fatal("no checkpoint was written")
	}
	if s := r.step.shards[0]; s.keeper.failing || s.reserve.bytes != 0 || s.keeper.dirty {
		t.Fatalf("the checkpoint failed: %v; %d bytes are in reserve", s.keeper.failing, s.reserve.bytes)
	}
	all := r.fillDisk() // to the end of what is prepared
	if len(all) == 0 {
		t.Fatal("prepared space is not used")
	}
	r.pass(3 * time.Second)
	refused := none.Fired()
	d.ClearFaults()
	r.pass(3 * time.Second)
	if bytes := r.step.shards[0].reserve.bytes; refused < 2 || bytes != reserveBytesMin {
		t.Fatalf("tried %d times, %d bytes in reserve", refused, bytes)
	}
	r.fill(100, 1000)
	r.close()
}
