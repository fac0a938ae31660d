package server

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"ringlog/engine/plan"
)

// TestADirectoryIsReadBesideItsBroker: who owns it is told without the lock, and the lock says who
// uses it.
func TestADirectoryIsReadBesideItsBroker(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadOwner(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the owner of an empty directory: %v", err)
	}
	if has, err := HasData(dir); err != nil || has {
		t.Errorf("an empty directory has data: %v, %v", has, err)
	}
	s := start(t, testConfig(t, dir))
	owner, err := ReadOwner(dir)
	if err != nil || owner.NodeID != 1 || owner.ClusterID == "" || !owner.Formatted {
		t.Errorf("%+v, %v", owner, err)
	}
	_, err = HoldDirectory(dir)
	var locked *LockedError
	if !errors.As(err, &locked) || !errors.Is(err, ErrLocked) || locked.Holder != strconv.Itoa(os.Getpid()) {
		t.Errorf("holding a directory in use: %v", err)
	}
	stop(t, s)
	if has, err := HasData(dir); err != nil || !has {
		t.Errorf("a directory of a broker has no data: %v, %v", has, err)
	}
}

// TestReadersKeepBrokersAway and not each other.
func TestReadersKeepBrokersAway(t *testing.T) {
	dir := t.TempDir()
	release, err := HoldDirectory(dir)
	if err != nil {
		t.Fatalf("a directory that nobody ever locked: %v", err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	stop(t, start(t, testConfig(t, dir)))
	first, err := HoldDirectory(dir)
	if err != nil {
		t.Fatal(err)
	}
	second, err := HoldDirectory(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), testConfig(t, dir)); !errors.Is(err, ErrLocked) {
		t.Errorf("a broker started on a directory that is being read: %v", err)
	}
	if err := errors.Join(first(), second()); err != nil {
		t.Error(err)
	}
	stop(t, start(t, testConfig(t, dir)))
}

func TestNeedsFollowFromTheConfiguration(t *testing.T) {
	c := Config{DataDir: "data", Shards: 2, JournalBytes: 4 << 20, MemoryBytes: 64 << 20, AdvertisedAddr: "log1.example.org:9092",
		NetworkEngine: NetworkStream, Broker: map[string]string{"max.connections": "100"}}
	c.EnsureDefaults()
	n, err := c.Needs()
	if err != nil {
		t.Fatal(err)
	}
	if n.JournalBytes != 8<<20 || n.MemoryBytes != 64<<20 || n.Threads != 2 || n.LogsDir != filepath.Join("data", "logs") ||
		n.Listen != "127.0.0.1:9092" || n.Advertised != "log1.example.org:9092" || n.Files != descriptorsReserved+segmentFilesMax+100 {
		t.Errorf("%+v", n)
	}
	if kept := c.KeptFreeBytes(100 << 30); kept != plan.FreeBytesMin(100<<30) {
		t.Errorf("%d bytes are kept free by default", kept)
	}
	c.DiskFreeBytesMin = DiskFreeOff
	if kept := c.KeptFreeBytes(100 << 30); kept != 0 {
		t.Errorf("%d bytes are kept free of none", kept)
	}
	c.Shards = -1
	if _, err := c.Needs(); err == nil {
		t.Error("a configuration with a fault has needs")
	}
}
