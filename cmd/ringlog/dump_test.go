package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringlog/engine/segment"
	"ringlog/internal/ringlogtest"
	"ringlog/raftctl"
	"ringlog/server"
)

// onceKilled is the data directory of a broker that was killed, with records of orders that
// its journal alone has.
func onceKilled(t *testing.T) (broker *ringlogtest.Broker, s script) {
	t.Helper()
	broker = ringlogtest.Start(t, ringlogtest.Options{})
	s = script{variables: map[string]string{"RINGLOG_BROKERS": broker.Address}}
	succeed(t, s, "", "topic", "create", "orders", "--partitions", "2")
	succeed(t, s, "a:1\nb:2\nc:3\n", "produce", "orders", "--key-delimiter", ":", "--partition", "1")
	broker.Kill()
	return broker, s
}

// succeed runs a command that must end well, and returns what it printed.
func succeed(t *testing.T, s script, stdin string, arguments ...string) string {
	t.Helper()
	output, complaint, code := s.execute(t, strings.NewReader(stdin), arguments...)
	if code != exitOK {
		t.Fatalf("%q: exit code %d\n%s%s", arguments, code, output, complaint)
	}
	return output
}

// TestAKilledBrokersRecordsAreShown: everything that was acknowledged is there to see, before
// any start has repaired anything.
func TestAKilledBrokersRecordsAreShown(t *testing.T) {
	broker, s := onceKilled(t)
	dir := "--data-dir=" + broker.DataDirectory

	output := succeed(t, s, "", "dump", dir)
	requireAll(t, output, "broker 1 of cluster ", "orders-0", "orders-1", "journal of shard 0")
	output = succeed(t, s, "", "dump", dir, "orders-1", "--records")
	requireAll(t, output, `key "a"  value "1"`, `key "c"  value "3"`, "end: offset 3")
	output = succeed(t, s, "", "dump", dir, "orders-1", "--records", "--from", "1", "--limit", "1", "--json")
	var line jsonRecord
	if err := json.Unmarshal([]byte(output), &line); err != nil || line.Topic != "orders" || *line.Partition != 1 || *line.Offset != 1 || *line.Value != "2" {
		t.Errorf("%s: %v", output, err)
	}
	output = succeed(t, s, "", "dump", dir, "orders", "--hex")
	requireAll(t, output, "base offset", "CRC-32C", "holds", "record 0: key", `"a"`)
	output = succeed(t, s, "", "dump", dir, "orders-1", "--json")
	var batch batchReport
	if err := json.Unmarshal([]byte(output), &batch); err != nil || batch.Log != "orders-1" || batch.Records != 3 {
		t.Errorf("%s: %v", output, err)
	}
	output = succeed(t, s, "", "dump", dir, "--verify")
	requireAll(t, output, "2 logs", "is whole")
	var found storeReport
	if err := json.Unmarshal([]byte(succeed(t, s, "", "dump", dir, "--json")), &found); err != nil || len(found.Logs) != 2 {
		t.Fatalf("%v: %+v", err, found)
	}

	_, complaint, code := s.execute(t, strings.NewReader(""), "dump", dir, "nobody")
	if code != exitNotFound || !strings.Contains(complaint, `"nobody"`) {
		t.Errorf("exit code %d, %s", code, complaint)
	}

	// A start comes to the ends that dump has shown.
	broker.Restart()
	var topics []topicDescription
	if err := json.Unmarshal([]byte(succeed(t, s, "", "topic", "describe", "orders", "--json")), &topics); err != nil || len(topics) != 1 {
		t.Fatalf("%v: %+v", err, topics)
	}
	for i, p := range topics[0].Partitions {
		if p.HighWatermark != found.Logs[i].EndOffset {
			t.Errorf("%s ends at %d, and dump has shown %d", found.Logs[i].Label, p.HighWatermark, found.Logs[i].EndOffset)
		}
	}
}

// TestEveryFileOfADataDirectoryIsShown: whichever file is named, as text, in hex and as JSON.
func TestEveryFileOfADataDirectoryIsShown(t *testing.T) {
	broker, s := onceKilled(t)
	broker.Restart()
	succeed(t, s, "", "topic", "create", "rolled", "--config", "segment.bytes=1048576")
	// Some segments are sealed, with indexes and snapshots.
	succeed(t, s, strings.Repeat("a line that fills a segment\n", 100_000), "produce", "rolled", "--batch-bytes", "100000")
	broker.Stop()

	kinds := map[string]bool{}
	err := filepath.WalkDir(broker.DataDirectory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		switch name := entry.Name(); {
		case name == "ringlog.lock", name == "ringlog.properties", strings.HasSuffix(name, ".reserve"), strings.HasSuffix(name, segment.NewSuffix):
			return nil // for people, and nothing but space
		case segment.IsPrepared(name):
			return nil
		}
		kinds[filepath.Ext(path)] = true
		succeed(t, s, "", "dump", path)
		output := succeed(t, s, "", "dump", path, "--json", "--limit", "3")
		for decoder := json.NewDecoder(strings.NewReader(output)); decoder.More(); {
			var value any
			if err := decoder.Decode(&value); err != nil {
				t.Errorf("%s: %v\n%s", path, err, output)
				break
			}
		}
		if path == raftctl.Path(broker.DataDirectory) {
			if !strings.Contains(output, `"cluster_id"`) || !strings.Contains(output, "CreateTopics") {
				t.Errorf("%s", output)
			}
			return nil
		}
		output = succeed(t, s, "", "dump", path, "--hex", "--limit", "3")
		if strings.Contains(output, "(no field)") {
			t.Errorf("%s has bytes without a name:\n%s", path, output)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, wanted := range []string{".log", ".index", ".timeindex", ".meta", ".checkpoint", ".journal", ".db", ".snapshot"} {
		if !kinds[wanted] {
			t.Errorf("no %s was shown", wanted)
		}
	}
}

// TestDamageHasANameAndAnExitCode: a script that looks after a directory learns of it, and a person
// where it is and what to do.
func TestDamageHasANameAndAnExitCode(t *testing.T) {
	broker, s := onceKilled(t)
	broker.Restart()
	broker.Stop()
	name := flipInRecords(t, broker.DataDirectory)

	output, complaint, code := s.execute(t, strings.NewReader(""), "dump", "--verify", "--data-dir", broker.DataDirectory)
	if code != exitDamaged || !strings.Contains(complaint, "is damaged in 1 place") {
		t.Errorf("exit code %d, %s%s", code, output, complaint)
	}
	requireAll(t, output, "DAMAGE (lost)", name, "log orders-1, offsets 0 to 2", "do: ")

	output, _, code = s.execute(t, strings.NewReader(""), "dump", "--verify", "--json", "--data-dir", broker.DataDirectory)
	var report verifyReport
	if err := json.Unmarshal([]byte(output), &report); err != nil || code != exitDamaged || report.Whole || len(report.Damages) != 1 || report.Damages[0].ToOffset != 3 {
		t.Errorf("exit code %d, %v\n%s", code, err, output)
	}

	if err := os.Remove(raftctl.Path(broker.DataDirectory)); err != nil {
		t.Fatal(err)
	}
	output, _, code = s.execute(t, strings.NewReader(""), "dump", "--verify", "--data-dir", broker.DataDirectory)
	if code != exitDamaged || !strings.Contains(output, "metadata.db") {
		t.Errorf("without metadata.db: exit code %d\n%s", code, output)
	}
}

// flipInRecords changes a bit of the only batch that there is, and returns its file's name.
func flipInRecords(t *testing.T, dataDirectory string) (name string) {
	t.Helper()
	found := errors.New("found")
	err := filepath.WalkDir(server.LogsDirectory(dataDirectory), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != segment.LogSuffix {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil || len(data) < 100 || data[70] == 0 {
			return err
		}
		data[70] ^= 1
		name = filepath.Base(path)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return err
		}
		return found
	})
	if !errors.Is(err, found) {
		t.Fatalf("no batch to damage: %v", err)
	}
	return name
}

// TestADirectoryInUseIsRefused: what is read of it would be of several moments; who knows that
// may read it all the same.
func TestADirectoryInUseIsRefused(t *testing.T) {
	broker := ringlogtest.Start(t, ringlogtest.Options{})
	s := script{variables: map[string]string{"RINGLOG_BROKERS": broker.Address}}
	succeed(t, s, "", "topic", "create", "orders")
	succeed(t, s, "one\ntwo\n", "produce", "orders")
	for _, arguments := range [][]string{
		{"dump", "--data-dir", broker.DataDirectory},
		{"dump", "--verify", "--data-dir", broker.DataDirectory},
		{"dump", raftctl.Path(broker.DataDirectory)},
	} {
		_, complaint, code := s.execute(t, strings.NewReader(""), arguments...)
		if code != exitFailed || !strings.Contains(complaint, "--live") {
			t.Errorf("%q: exit code %d, %s", arguments, code, complaint)
		}
		output, complaint, code := s.execute(t, strings.NewReader(""), append(arguments, "--live")...)
		if code != exitOK || !strings.Contains(complaint, "several moments") {
			t.Errorf("%q with --live: exit code %d, %s%s", arguments, code, output, complaint)
		}
	}
	output := succeed(t, s, "", "dump", "orders", "--records", "--live", "--data-dir", broker.DataDirectory)
	requireAll(t, output, `value "one"`, `value "two"`)
}

// TestDumpKeepsBrokersAway: two processes that mind the lock do not read and write at once.
func TestDumpKeepsBrokersAway(t *testing.T) {
	broker, _ := onceKilled(t)
	release, err := server.HoldDirectory(broker.DataDirectory)
	if err != nil {
		t.Fatal(err)
	}
	code, complaint := serveOnce(t, "--data-dir", broker.DataDirectory, "--kafka-addr", "127.0.0.1:0", "--admin-addr", "off")
	if code != int(exitFailed) || !strings.Contains(complaint, "in use") {
		t.Errorf("exit code %d, %s", code, complaint)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
}
