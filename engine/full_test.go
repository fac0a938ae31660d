package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringlog/engine/disk"
	"ringlog/engine/disk/crash"
	"ringlog/engine/plan"
	"ringlog/engine/segment"
	"ringlog/record"
)

// fullSteps are the steps of preparing, naming and bookkeeping that a full disk fails.
var fullSteps = []crash.Fault{
	{Kind: disk.Preallocate},
	{Kind: disk.Preallocate, Path: "*/" + segment.PreparedPrefix + "*"},
	{Kind: disk.Preallocate, Path: "*/" + segment.ManifestNewName},
	{Kind: disk.Open, Path: "*/" + segment.PreparedPrefix + "*"},
	{Kind: disk.Open, Path: "*/" + segment.ManifestNewName},
	{Kind: disk.Write, Path: "*/" + segment.ManifestNewName},
	{Kind: disk.Exchange, Path: "*/" + segment.ManifestNewName},
	{Kind: disk.Rename, Path: "*/*" + segment.LogSuffix},
	{Kind: disk.Open, Path: "*/*" + segment.IndexSuffix + segment.NewSuffix},
	{Kind: disk.Write, Path: "*/*" + segment.IndexSuffix + segment.NewSuffix},
	{Kind: disk.Write, Path: "*/*" + segment.SnapshotSuffix + segment.NewSuffix},
	{Kind: disk.Open, Path: "*.checkpoint" + segment.NewSuffix},
	{Kind: disk.Write, Path: "*.checkpoint" + segment.NewSuffix},
	{Kind: disk.Exchange},
}

// The fault table of scenario 14: whichever step finds the disk full, and with it everything of
// its kind, produces are taken or refused and never fail, a stop keeps what was acknowledged, and
// when there is space the log goes on, in the same life or the next one.
func TestFullDiskAtEachStep(t *testing.T) {
	for _, step := range fullSteps {
		for _, stops := range []bool{false, true} {
			for _, journal := range []int64{0, 256 << 10} {
				t.Run(fmt.Sprintf("%s %s, stops %t, journal %d", step.Kind, strings.ReplaceAll(step.Path, "/", "|"), stops, journal), func(t *testing.T) {
					testFullStep(t, step, stops, journal)
				})
			}
		}
	}
}

func testFullStep(t *testing.T, step crash.Fault, stops bool, journal int64) {
	tune := func(o *Options) { o.JournalBytes = journal }
	r, d := crashRig(t, LogConfig{SegmentBytes: 32 << 10, FileDeleteMillis: 1}, tune)
	all := r.fill(40, 1000)
	step.Err = syscall.ENOSPC
	fault := d.AddFault(step)
	for i := uint64(0); i < 120; i++ {
		batch := batchOf(100+i, 1, 3000, 1)
		p := r.submit(batch)
		r.pass(100 * time.Millisecond)
		switch {
		case p.answered == 0: // the name of its segment finds no space
		case p.Appends[0].Err == nil:
			all = append(all, batch)
		case !errors.Is(p.Appends[0].Err, ErrNoSpace):
			t.Fatalf("append %d: %v", i, p.Appends[0].Err)
		}
	}
	if got := r.readAll(0); len(got) < len(all) {
		t.Fatalf("%d batches are acknowledged, %d are read", len(all), len(got))
	}
	if stops {
		// The power goes behind the stop, and the disk is still full when it is back. (That the
		// checkpoint cannot be replaced then is what the reserve, and a message, are for.)
		r.close()
		d = d.Crash(3)
		if !strings.Contains(step.Path, "checkpoint") && step.Kind != disk.Exchange {
			d.AddFault(step)
		}
		r.on(d)
		r.start()
		r.open()
		if got := r.readAll(0); len(got) < len(all) {
			t.Fatalf("%d batches are acknowledged, %d are read after a stop", len(all), len(got))
		}
	}
	d.ClearFaults()
	r.pass(8 * time.Second)
	if s := r.step.shards[0]; s.err != nil || r.log.usable() != nil {
		t.Fatalf("after %d times of no space the log is %v, the shard %v", fault.Fired(), r.log.usable(), s.err)
	}
	r.fill(40, 1000)
	got := r.readAll(0)
	for at := 0; len(all) > 0; at++ {
		if at == len(got) {
			t.Fatalf("%d acknowledged batches are gone", len(all))
		}
		if samePayload(got[at], all[0]) {
			all = all[1:]
		}
	}
	r.close()
}

// samePayload says whether two batches have the same records: a batch that is appended gets an
// offset and an epoch.
func samePayload(a, b record.Batch) bool {
	return len(a) == len(b) && string(a[record.HeaderBytes:]) == string(b[record.HeaderBytes:])
}

// Rule 8: what is replaced again and again asks a full disk for nothing. Not even the reserve is
// touched by a hundred new manifests and checkpoints.
func TestManifestAndCheckpointNeedNoSpace(t *testing.T) {
	r, d := crashRig(t, LogConfig{SegmentBytes: 64 << 10}, nil)
	r.fill(100, 1000)
	r.pass(10 * time.Second) // checkpoints, and what is prepared for the next
	for _, kind := range []disk.Kind{disk.Preallocate, disk.Rename} {
		d.AddFault(crash.Fault{Kind: kind, Err: syscall.ENOSPC})
	}
	d.AddFault(crash.Fault{Kind: disk.Open, Path: "*/" + segment.PreparedPrefix + "*", Err: syscall.ENOSPC})
	before := r.step.Metrics().Checkpoints
	for offset := range int64(100) {
		if err := r.step.AdvanceStart(context.Background(), r.id, offset); err != nil {
			t.Fatalf("start %d: %v", offset, err)
		}
		r.pass(time.Second)
	}
	if s := r.step.shards[0]; s.reserve.bytes < reserveBytesMin || s.keeper.failing {
		t.Fatalf("%d bytes are in reserve; the checkpoint fails: %t", s.reserve.bytes, s.keeper.failing)
	}
	if after := r.step.Metrics().Checkpoints; after < before+10 {
		t.Fatalf("%d checkpoints, %d before the disk was full", after, before)
	}
	r.close()
}

// Options.FreeBytesMin: produces are refused while so much is free, the rest goes on, and what retention
// or anybody gives back is used without a restart.
func TestDiskIsNotFilledUp(t *testing.T) {
	const total, kept = 4 << 20, 1 << 20
	r := newRig(t)
	d := crash.New(crash.Options{Seed: 7, BytesMax: total + *journalBytes})
	r.config = LogConfig{SegmentBytes: 512 << 10, FileDeleteMillis: 1}
	r.tune = func(o *Options) { o.FreeBytesMin = kept }
	r.on(d)
	r.start()
	r.open()
	all := r.fillDisk()
	r.pass(2 * time.Second)
	m := r.step.Metrics()
	if m.DiskFreeBytes < kept-64<<10 || m.DiskFreeBytes > kept+plan.PrepareStepMin || m.SpaceRefusals == 0 {
		t.Fatalf("%d bytes are free of %d, %d appends are refused", m.DiskFreeBytes, m.DiskBytes, m.SpaceRefusals)
	}
	if len(all)*1000 < (total-kept)/2 {
		t.Fatalf("%d batches filled the disk", len(all))
	}
	r.pass(10 * time.Second)
	r.expect(all, r.readAll(0))
	// Others take a part of what is kept: still nothing fails, and a stop and a start are as ever.
	if err := d.WriteFile("others", make([]byte, kept/2)); err != nil {
		t.Fatal(err)
	}
	r.pass(2 * time.Second)
	if r.step.Metrics().DiskLow != 1 {
		t.Fatal("less is free than what is kept, and nobody is told")
	}
	r.close()
	r.on(d.Crash(1))
	r.start()
	r.open()
	r.expect(all, r.readAll(0))
	if p := r.submit(batchOf(1, 1, 600<<10, 1)); true {
		r.settle()
		if !errors.Is(p.Appends[0].Err, ErrNoSpace) {
			t.Fatalf("a produce that needs new space: %v", p.Appends[0].Err)
		}
	}
	if err := r.step.AdvanceStart(context.Background(), r.id, r.log.Frontiers().HighWatermark); err != nil {
		t.Fatal(err)
	}
	r.pass(5 * time.Second)
	r.fill(1000, 1000)
	if r.step.Metrics().DiskLow != 0 {
		t.Fatal("there is room again, and nobody is told")
	}
	r.close()
}

// Rule 13 and the file beside the checkpoint: when the sync behind an exchange fails, what is spare may be
// the content after a crash, so it is not written to again, whatever a later sync says.
func TestSpareOfAFailedExchangeIsLeftAlone(t *testing.T) {
	r, d := crashRig(t, LogConfig{}, nil)
	for n := range byte(20) { // a checkpoint of several sectors, which can be torn
		r.id = LogID{9, n}
		r.open()
	}
	r.fill(3, 1000)
	r.pass(10 * time.Second)
	failed := d.AddFault(crash.Fault{Kind: disk.SyncDirectory, Path: ".", Times: 1, Err: syscall.EIO})
	r.fill(1, 1000)
	r.pass(6 * time.Second)
	if failed.Fired() != 1 || !r.step.shards[0].keeper.file.doubted {
		t.Fatal("the sync behind a checkpoint did not fail")
	}
	// A sync that lost something succeeds when it is tried again. The power goes at any moment
	// while the next checkpoint is written.
	lies := d.AddFault(crash.Fault{Kind: disk.SyncDirectory, Path: ".", Effect: crash.LieAboutFlush})
	r.fill(1, 1000)
	r.now += 6 * time.Second
	written := r.step.Metrics().Checkpoints
	for i := 0; i < 1000 && r.step.Metrics().Checkpoints == written; i++ {
		if err := r.step.Turn(); err != nil {
			t.Fatal(err)
		}
		for seed := range uint64(8) {
			content, err := d.Crash(seed).ReadFile(segment.CheckpointName(0))
			if err == nil {
				_, err = segment.DecodeCheckpoint(content)
			}
			if err != nil {
				t.Fatalf("turn %d, seed %d: the checkpoint after a power cut: %v", i, seed, err)
			}
		}
		r.now += 10 * time.Millisecond
	}
	if lies.Fired() == 0 {
		t.Fatal("no checkpoint was written again")
	}
	r.step.Abandon()
}
