package raftctl

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"ringlog/meta"
)

// TestAStoreIsInspectedWithoutAController: what a reader sees is what the controller had, and the file
// stays as it was.
func TestAStoreIsInspectedWithoutAController(t *testing.T) {
	path, image := prepare(t)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	i, err := Inspect(path)
	if err != nil {
		t.Fatal(err)
	}
	sameMetadata(t, image, i.Image)
	if i.NodeID != 1 || i.ClusterID != testOptions().ClusterID || len(i.Voters) != 1 || i.Voters[0] != 1 || i.SnapshotIndex <= 1 || i.SnapshotBytes == 0 {
		t.Errorf("%+v", i)
	}
	last := i.BoundaryIndex
	commands := 0
	for _, e := range i.Entries {
		if e.Index != last+1 || e.Refusal != nil || !e.Committed {
			t.Errorf("%+v does not follow %d", e, last)
		}
		if _, ok := e.Command.(meta.CreateTopics); ok && e.Session != 0 && e.Proposal > 0 {
			commands++
		}
		last = e.Index
	}
	if commands < trailingEntries {
		t.Errorf("%d commands in %d entries", commands, len(i.Entries))
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the file has changed, or cannot be read: %v", err)
	}
}

func TestAStoreInUseIsNotInspected(t *testing.T) {
	dir := t.TempDir()
	c := startFresh(t, dir)
	if _, err := Inspect(Path(dir)); !errors.Is(err, ErrLocked) {
		t.Errorf("got %v", err)
	}
	stop(t, c)
	if _, err := Inspect(Path(dir)); err != nil {
		t.Error(err)
	}
}

func TestDamageIsFoundByInspection(t *testing.T) {
	path, _ := prepare(t)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data[:16<<10], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Inspect(path); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a file that was cut off: %v", err)
	}
	if _, err := Inspect(filepath.Join(t.TempDir(), fileName)); !errors.Is(err, ErrMissing) {
		t.Errorf("no file: %v", err)
	}
}
