package crash_test

import (
	"bytes"
	"errors"
	"testing"

	"ringlog/engine/disk"
	"ringlog/engine/disk/crash"
	"ringlog/engine/disk/disktest"
)

// A sibling is a disk like any other.
func TestSiblingConformance(t *testing.T) {
	disktest.Run(t, func(*testing.T) disk.Disk { return crash.New(crash.Options{Seed: 3}).Sibling() })
}

// Siblings see one name space and each other's bytes as soon as they completed, and
// have handles and operations in flight of their own.
func TestSiblingsShareFiles(t *testing.T) {
	one := newRig(t, crash.Options{Seed: 1})
	two := &rig{t, one.Sibling()}
	file := one.open("f")
	one.must(write(file, 0, 1, 'a'))
	got := two.must(&disk.Operation{Kind: disk.Read, File: two.open("f"), Buffer: disk.AlignedBytes(disk.BlockBytes)})
	if got.Done != disk.BlockBytes || got.Buffer[7] != 'a' {
		t.Fatalf("read %d bytes, %q", got.Done, got.Buffer[7])
	}
	one.Submit(write(file, 1, 1, 'b'))
	if one.InFlight() != 1 || two.InFlight() != 0 {
		t.Fatalf("%d and %d in flight", one.InFlight(), two.InFlight())
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	two.must(&disk.Operation{Kind: disk.MakeDirectory, Path: "d"}) // the other one goes on
}

// A flush of everything on one covers what completed on the other before; what is in flight
// there may be found or not, in one power cut for both.
func TestSiblingsLosePowerTogether(t *testing.T) {
	one := newRig(t, crash.Options{Seed: 1})
	two := &rig{t, one.Sibling()}
	one.durable("f", make([]byte, 4*disk.BlockBytes))
	mine, its := one.open("f"), two.open("f")
	one.must(write(mine, 0, 1, 'a'))
	two.must(&disk.Operation{Kind: disk.SyncFilesystem, File: its})
	two.must(write(its, 1, 1, 'b'))
	one.Submit(write(mine, 2, 1, 'c'))
	if _, err := one.Wait(nil, 0); err != nil {
		t.Fatal(err)
	}
	block := func(b byte) []byte { return bytes.Repeat([]byte{b}, disk.BlockBytes) }
	kept, lost := map[byte]bool{}, map[byte]bool{}
	for seed := range uint64(seeds) {
		asked := []*crash.Disk{one.Disk, two.Disk}[seed%2]
		content, err := asked.Crash(seed).ReadFile("f")
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range []byte("abc") {
			if bytes.Equal(content[i*disk.BlockBytes:][:disk.BlockBytes], block(b)) {
				kept[b] = true
			} else {
				lost[b] = true
			}
		}
	}
	if !kept['a'] || lost['a'] || !kept['b'] || !lost['b'] || !kept['c'] || !lost['c'] {
		t.Fatalf("kept %v, lost %v", kept, lost)
	}
	one.Halt()
	if _, err := two.Wait(nil, 0); !errors.Is(err, crash.ErrCrashed) || !two.Crashed() {
		t.Fatalf("the sibling's Wait returns %v", err)
	}
}
