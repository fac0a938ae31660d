package crash_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"ringlog/engine/disk"
	"ringlog/engine/disk/crash"
)

// outcomes collects what the names look like after each possible power cut.
func outcomes(r *rig) map[string]int {
	seen := map[string]int{}
	for outcome := range r.CrashOutcomes(1 << 12) {
		seen[strings.Join(outcome.List(), " ")]++
	}
	return seen
}

func expectOutcomes(t *testing.T, r *rig, want ...string) {
	t.Helper()
	seen := outcomes(r)
	for _, names := range want {
		if seen[names] == 0 {
			t.Errorf("never found after a power cut: %q; found: %v", names, seen)
		}
	}
	if len(seen) != len(want) {
		t.Errorf("found %v, want %q and nothing else", seen, want)
	}
}

// Open: "A newly created name is durable only after SyncDirectory of its
// parent", however often the file itself was flushed.
func TestNameWithoutSyncDirectoryMayVanish(t *testing.T) {
	r := newRig(t, crash.Options{})
	file := r.open("log")
	r.must(write(file, 0, 1, 1))
	r.flush(file)
	expectOutcomes(t, r, "", "log")
	r.syncDirectory(".")
	expectOutcomes(t, r, "log")
	if got := content(t, r.Crash(0), "log"); !bytes.Equal(got, blocksOf(1, 1)) {
		t.Error("the name is durable, its flushed content is not")
	}
}

// A synced name is worth nothing in a directory whose own name is not durable.
func TestNameVanishesWithItsDirectory(t *testing.T) {
	r := newRig(t, crash.Options{})
	r.must(&disk.Operation{Kind: disk.MakeDirectory, Path: "logs"})
	r.open("logs/a")
	r.syncDirectory("logs")
	expectOutcomes(t, r, "", "logs/ logs/a")
	r.syncDirectory(".")
	expectOutcomes(t, r, "logs/ logs/a")
}

// A SyncDirectory covers what completed before it was submitted, in its own
// directory only.
func TestSyncDirectoryCoversOneDirectory(t *testing.T) {
	r := newRig(t, crash.Options{})
	if err := r.WriteFile("d/old", nil); err != nil {
		t.Fatal(err)
	}
	r.open("a")
	r.open("d/b")
	r.syncDirectory("d")
	expectOutcomes(t, r, "d/ d/b d/old", "a d/ d/b d/old")
}

func TestUnlinkIsUndoneOrDone(t *testing.T) {
	r := newRig(t, crash.Options{})
	r.durable("log", blocksOf(1, 1))
	r.must(&disk.Operation{Kind: disk.Unlink, Path: "log"})
	expectOutcomes(t, r, "", "log")
	r.open("log") // a second file of that name: the name never holds what it did in between
	found := map[int]bool{}
	for outcome := range r.CrashOutcomes(64) {
		found[len(content(t, outcome, "log"))] = true
	}
	if len(found) != 2 {
		t.Errorf("lengths found: %v, want the old file's and the new one's or none", found)
	}
	r.syncDirectory(".")
	expectOutcomes(t, r, "log")
	if got := content(t, r.Crash(1), "log"); len(got) != 0 {
		t.Error("an unlinked file came back")
	}
}

// Rename "moves Path to NewPath, replacing what is there": after a power cut
// the target is the old file or the new one, never neither and never a mixture.
func TestRenameIsOldOrNew(t *testing.T) {
	r := newRig(t, crash.Options{})
	r.durable("log.meta", blocksOf(1, 1))
	r.durable("log.meta.tmp", blocksOf(1, 2))
	r.rename("log.meta.tmp", "log.meta")
	seen := map[byte]int{}
	for outcome := range r.CrashOutcomes(64) {
		got := content(t, outcome, "log.meta")
		if len(got) != disk.BlockBytes {
			t.Fatalf("the target is neither: %d bytes", len(got))
		}
		seen[got[0]]++
		_, err := outcome.ReadFile("log.meta.tmp")
		if there := err == nil; there != (got[0] == 1) {
			t.Errorf("log.meta is %d and the temporary file there: %v", got[0], there)
		}
	}
	if seen[1] == 0 || seen[2] == 0 {
		t.Errorf("targets found: %v, want old and new", seen)
	}
	r.syncDirectory(".")
	expectOutcomes(t, r, "log.meta")
}

// "Durable after SyncDirectory of both parents."
func TestRenameAcrossDirectoriesNeedsBothSynced(t *testing.T) {
	r := newRig(t, crash.Options{})
	for _, name := range []string{"a/x", "b/other"} {
		if err := r.WriteFile(name, nil); err != nil {
			t.Fatal(err)
		}
	}
	r.rename("a/x", "b/x")
	before, after := "a/ a/x b/ b/other", "a/ b/ b/other b/x"
	expectOutcomes(t, r, before, after)
	r.syncDirectory("b")
	expectOutcomes(t, r, before, after)
	r.syncDirectory("a")
	expectOutcomes(t, r, after)
}

// A synced name takes with it what it came from: a later rename cannot be
// durable without the creation.
func TestDependentNamesAreKeptInOrder(t *testing.T) {
	r := newRig(t, crash.Options{})
	r.open("a")
	r.rename("a", "b")
	r.rename("b", "c")
	expectOutcomes(t, r, "", "a", "b", "c")
	r.syncDirectory(".")
	expectOutcomes(t, r, "c")
}

// Two renames of directories could each end up below the other; they are kept
// in order instead.
func TestDirectoryRenamesNeverMakeALoop(t *testing.T) {
	r := newRig(t, crash.Options{})
	if err := r.WriteFile("a/b/file", nil); err != nil {
		t.Fatal(err)
	}
	r.rename("a/b", "b")
	r.rename("a", "b/a")
	for names := range outcomes(r) {
		if !strings.Contains(names, "file") {
			t.Errorf("the file is lost: %q", names)
		}
	}
	err := r.do(&disk.Operation{Kind: disk.Rename, Path: "b", NewPath: "b/a/b"})
	if err == nil {
		t.Error("a directory was moved below itself")
	}
}

// The idiom by which log.meta is replaced (rule 6 of the engine): temporary file, flush,
// rename, directory sync. Whenever the power goes, and whatever of the pending
// is kept, the old content or the new one is found whole; after the last step
// only the new one.
func TestReplacingAFileIsSafeAtEveryStep(t *testing.T) {
	replace := func(r *rig) error {
		run := func(op *disk.Operation) error {
			r.Submit(op)
			for {
				finished, err := r.Wait(nil, -1)
				if err != nil {
					return err
				}
				if len(finished) > 0 {
					return op.Err
				}
			}
		}
		open := &disk.Operation{Kind: disk.Open, Path: "meta.tmp", Flags: disk.Create | disk.Truncate}
		if err := run(open); err != nil {
			return err
		}
		for _, op := range []*disk.Operation{
			write(open.File, 0, 1, 2),
			{Kind: disk.Flush, File: open.File},
			{Kind: disk.Close, File: open.File},
			{Kind: disk.Rename, Path: "meta.tmp", NewPath: "meta"},
			{Kind: disk.SyncDirectory, Path: "."},
		} {
			if err := run(op); err != nil {
				return err
			}
		}
		return nil
	}
	old, fresh := 0, 0
	for step := 1; ; step++ {
		r := newRig(t, crash.Options{Seed: uint64(step)})
		r.durable("meta", blocksOf(1, 1))
		r.CrashAt(r.Steps() + step)
		err := replace(r)
		for outcome := range r.CrashOutcomes(2000) {
			got := content(t, outcome, "meta")
			switch {
			case bytes.Equal(got, blocksOf(1, 1)) && err != nil:
				old++
			case bytes.Equal(got, blocksOf(1, 2)):
				fresh++
			default:
				t.Fatalf("step %d: meta has %d bytes after %v", step, len(got), err)
			}
		}
		if err == nil {
			break
		}
		if !errors.Is(err, crash.ErrCrashed) {
			t.Fatal(err)
		}
	}
	if old == 0 || fresh == 0 {
		t.Errorf("old %d times, new %d times", old, fresh)
	}
	// Without the flush the same walk finds the hole: the test above can fail.
	r := newRig(t, crash.Options{})
	r.durable("meta", blocksOf(1, 1))
	file := r.open("meta.tmp")
	r.must(write(file, 0, 1, 2))
	r.rename("meta.tmp", "meta")
	torn := 0
	for outcome := range r.CrashOutcomes(1 << 12) {
		if got := content(t, outcome, "meta"); !slices.Contains([]string{string(blocksOf(1, 1)), string(blocksOf(1, 2))}, string(got)) {
			torn++
		}
	}
	if torn == 0 {
		t.Error("renaming an unflushed file was always safe")
	}
}
