package server

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"ringlog/engine"
)

// The default leaves half of the tails' memory to what the segments have, whatever
// the memory and the number of shards, and stays within what the engine takes.
func TestTheDefaultJournalFitsTheMemory(t *testing.T) {
	for _, test := range []struct {
		memory int64
		shards int
		want   int64
	}{
		{4 << 30, 1, 512 << 20},
		{64 << 30, 1, 512 << 20}, // no larger: a start would have more to merge
		{1 << 30, 1, 128 << 20},
		{1 << 30, 2, 64 << 20},
		{256 << 20, 1, 32 << 20},
		{256 << 20, 4, 16 << 20}, // 32 MiB each would be all of it
		{64 << 20, 1, 16 << 20},
		{64 << 20, engine.ShardsMax, max((16<<20)/engine.ShardsMax, engine.JournalBytesMin)},
	} {
		c := Config{MemoryBytes: test.memory, Shards: test.shards}
		c.EnsureDefaults()
		if c.JournalBytes != test.want {
			t.Errorf("%d bytes of memory and %d shards: journals of %d bytes, want %d", test.memory, test.shards, c.JournalBytes, test.want)
		}
		if err := c.Validate(); err != nil {
			t.Error(err)
		}
	}
}

func TestJournalBytesAsASetting(t *testing.T) {
	for value, want := range map[string]int64{"0": JournalOff, "4MiB": 4 << 20, "1 GiB": 1 << 30} {
		c := Config{MemoryBytes: memoryBytesMin}
		if err := c.Set("ringlog.journal.bytes", value); err != nil {
			t.Fatal(err)
		}
		c.EnsureDefaults()
		if err := c.Validate(); err != nil || c.JournalBytes != want {
			t.Errorf("%s sets %d, want %d; %v", value, c.JournalBytes, want, err)
		}
	}
	for _, value := range []string{"1", "64KiB", "5GiB"} {
		c := Config{MemoryBytes: memoryBytesMin}
		if err := c.Set("ringlog.journal.bytes", value); err != nil {
			t.Fatal(err)
		}
		c.EnsureDefaults()
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "ringlog.journal.bytes: ") {
			t.Errorf("%s: %v, want a word about ringlog.journal.bytes", value, err)
		}
	}
	var c Config
	if err := c.Set("ringlog.journal.bytes", "none"); err == nil || c.JournalBytes == JournalOff {
		t.Errorf("what is no number is an error and switches nothing off: %v, %d", err, c.JournalBytes)
	}
}

func TestDiskFreeBytesAsASetting(t *testing.T) {
	for value, want := range map[string]int64{"": engine.FreeBytesDefault, "0": 0, "4MiB": 4 << 20, "1 GiB": 1 << 30} {
		c := Config{MemoryBytes: memoryBytesMin}
		if value != "" {
			if err := c.Set("ringlog.disk.free.min.bytes", value); err != nil {
				t.Fatal(err)
			}
		}
		c.EnsureDefaults()
		if err := c.Validate(); err != nil || freeBytesMin(c.DiskFreeBytesMin) != want {
			t.Errorf("%q keeps %d free, want %d; %v", value, freeBytesMin(c.DiskFreeBytesMin), want, err)
		}
	}
	c := Config{DiskFreeBytesMin: -7}
	c.EnsureDefaults()
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "ringlog.disk.free.min.bytes: ") {
		t.Errorf("less than nothing: %v", err)
	}
}

// A journal may come, go and change its size from start to start: what was
// acknowledged stays, and the log of each start says what holds. The first start
// with a size says how long making it took.
func TestTheJournalChangesFromStartToStart(t *testing.T) {
	dir := t.TempDir()
	ring := filepath.Join(dir, logsName, "shard-0.journal")
	stored := 0
	for _, life := range []struct {
		bytes int64
		says  string
		made  bool
	}{
		{4 << 20, "commit journal", true},
		{4 << 20, "commit journal", false},
		{JournalOff, "there is no commit journal", false},
		{20 << 20, "less than twice the commit journals", true},
		{1 << 20, "commit journal", true},
		{1 << 20, "commit journal", false},
	} {
		var log journal
		config := testConfig(t, dir)
		config.JournalBytes, config.Logger = life.bytes, log.logger()
		s := start(t, config)
		if !strings.Contains(log.String(), life.says) {
			t.Errorf("with %d bytes: no word of %q in\n%s", life.bytes, life.says, log.String())
		}
		if made := strings.Contains(log.String(), "journal is made, and written through once"); made != life.made {
			t.Errorf("with %d bytes: it is made: %v, want %v", life.bytes, made, life.made)
		}
		info, err := os.Stat(ring)
		if there := err == nil; there != (life.bytes != JournalOff) || there && info.Size() < life.bytes {
			t.Errorf("with %d bytes: the ring is %v, %v", life.bytes, info, err)
		}
		c := client(t, s, kgo.AllowAutoTopicCreation())
		if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte{byte('a' + stored)}}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		stored++
		if !life.made { // reading takes its time
			if got := strings.Join(consume(t, s, "orders", stored), ""); got != "abcdef"[:stored] {
				t.Errorf("with %d bytes: %q is stored", life.bytes, got)
			}
		}
		stop(t, s)
	}
}

// A journal that cannot be made is an error that names it.
func TestTheJournalCannotBeMade(t *testing.T) {
	dir := t.TempDir()
	config := testConfig(t, dir)
	config.JournalBytes = JournalOff
	stop(t, start(t, config))
	if err := os.MkdirAll(filepath.Join(dir, logsName, "shard-0.journal.new"), 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := Start(context.Background(), testConfig(t, dir))
	if err == nil {
		stop(t, s)
	}
	if err == nil || !strings.Contains(err.Error(), "make the commit journal shard-0.journal of 4194304 bytes") {
		t.Errorf("got %v", err)
	}
}

// What one produce costs the device is counted, and so is how long its flush took.
func TestMetricsOfCommits(t *testing.T) {
	s := start(t, testConfig(t, t.TempDir()))
	c := client(t, s, kgo.AllowAutoTopicCreation())
	if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("a")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	body, _ := get(t, s, "/metrics")
	for _, line := range []string{
		"ringlog_engine_journal_bytes 4.194304e+06", "ringlog_engine_journal_appends_total 1", "ringlog_engine_journal_entries_total 1",
		`ringlog_engine_device_bytes_total{kind="journal"} 4096`, `ringlog_engine_device_bytes_total{kind="prepared"} 4.194304e+06`,
		`ringlog_engine_journal_flush_seconds_bucket{le="+Inf"} 1`, "ringlog_engine_journal_flush_seconds_count 1",
		"ringlog_engine_poisoned_shards 0", `ringlog_shard_poisoned{shard="0"} 0`, `ringlog_shard_commits_total{shard="0"} 1`,
	} {
		if !strings.Contains(body, "\n"+line+"\n") {
			t.Errorf("%s is missing", line)
		}
	}
	if t.Failed() {
		t.Log(body)
	}
}
