package killtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"ringlog/internal/faultfs"
	"ringlog/internal/loopfs"
	"ringlog/internal/ringlogtest"
)

// TestFailingDisk runs the real binary on a file system that fails on command (docs/faults.md): what was
// acknowledged is there after the restart that each failure asks for, and who asks is told what is wrong.
func TestFailingDisk(t *testing.T) {
	for _, failure := range []struct {
		operation faultfs.Operation
		pattern   string
	}{{faultfs.Write, "shard-0.journal"}, {faultfs.Flush, "shard-0.journal"}} {
		t.Run(string(failure.operation)+" of "+failure.pattern+" fails", func(t *testing.T) {
			testFailingWrites(t, failure.operation, failure.pattern)
		})
	}
	t.Run("reads fail", testFailingReads)
	t.Run("metadata cannot be written", testFailingMetadata)
	t.Run("nothing is answered", testHangingDisk)
}

// faultyBroker starts a broker on a file system that can fail.
func faultyBroker(t *testing.T) (*faultfs.FileSystem, *ringlogtest.Broker, []*subject) {
	t.Helper()
	fs := faultfs.New(t)
	broker := ringlogtest.Start(t, ringlogtest.Options{DataDirectory: filepath.Join(fs.Path, "data")})
	subjects := fillingSubjects(t, broker.Address)
	for _, s := range subjects {
		awaitAcceptance(t, broker.Address, s)
	}
	return fs, broker, subjects
}

func testFailingWrites(t *testing.T, operation faultfs.Operation, pattern string) {
	fs, broker, subjects := faultyBroker(t)
	fs.Fail(operation, pattern, syscall.EIO)
	awaitRefusal(t, broker.Address, subjects[0])
	awaitHealth(t, broker, http.StatusServiceUnavailable, "take no more records after a disk failure")
	fs.Heal()
	if fs.Met() == 0 {
		t.Fatal("nothing has failed")
	}
	awaitRefusal(t, broker.Address, subjects[0]) // it does not heal by itself
	for _, s := range subjects {
		s.read(t, broker.Address)
	}
	broker.Stop()
	broker.Restart()
	for _, s := range subjects {
		awaitAcceptance(t, broker.Address, s)
		s.reread()
	}
	readAndCheck(t, broker.Address, subjects)
	broker.Stop()
	t.Logf("%s of %s: %s", operation, pattern, totals(subjects))
}

// testFailingReads: who reads what the disk does not give is told to try again, and then has it.
func testFailingReads(t *testing.T) {
	fs, broker, subjects := faultyBroker(t)
	for _, s := range subjects {
		awaitAcceptance(t, broker.Address, s)
	}
	broker.Stop() // nothing is in memory then
	broker.Restart()
	fs.Fail(faultfs.Read, "*.log", syscall.EIO)
	s := subjects[0]
	client := newClient(t, broker.Address, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{s.topic: {0: kgo.NewOffset().At(0)}}), kgo.KeepRetryableFetchErrors())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for told := false; !told; {
		for _, failed := range client.PollFetches(ctx).Errors() {
			if told = errors.Is(failed.Err, kerr.KafkaStorageError); !told {
				t.Fatalf("a fetch that the disk fails is answered: %v", failed.Err)
			}
		}
	}
	if broker.Metric("ringlog_engine_read_errors_total") == 0 {
		t.Error("no read error is counted")
	}
	fs.Heal()
	readAndCheck(t, broker.Address, subjects)
	broker.Stop()
}

// testFailingMetadata: topics cannot change, and records flow on.
func testFailingMetadata(t *testing.T) {
	fs, broker, subjects := faultyBroker(t)
	fs.Fail(faultfs.Flush, "metadata.db", syscall.EIO)
	fs.Fail(faultfs.Write, "metadata.db", syscall.EIO)
	admin := kadm.NewClient(newClient(t, broker.Address, kgo.RetryTimeout(time.Second)))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := admin.CreateTopic(ctx, 1, 1, nil, "never"); err == nil {
		t.Error("a topic is created without metadata")
	}
	awaitHealth(t, broker, http.StatusServiceUnavailable, "metadata cannot change until restart")
	for _, s := range subjects {
		awaitAcceptance(t, broker.Address, s)
	}
	fs.Heal()
	broker.Stop()
	broker.Restart()
	if _, err := kadm.NewClient(newClient(t, broker.Address)).CreateTopic(t.Context(), 1, 1, nil, "now"); err != nil {
		t.Errorf("a topic after the restart: %v", err)
	}
	readAndCheck(t, broker.Address, subjects)
	broker.Stop()
}

// testHangingDisk: who waits goes on waiting, the broker says why, and nothing is refused or lost when it is over.
func testHangingDisk(t *testing.T) {
	fs, broker, subjects := faultyBroker(t)
	fs.Hang(faultfs.Flush, "shard-0.journal")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client := newClient(t, broker.Address, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	answered := make(chan error, 1)
	go func() { answered <- subjects[0].sendOnce(ctx, client) }()
	awaitHealth(t, broker, http.StatusOK, "the disk is slow")
	awaitLog(t, broker, "the disk does not answer")
	if broker.Metric("ringlog_engine_oldest_operation_seconds") < 5 || broker.Metric("ringlog_engine_slow_total") != 1 {
		t.Error("the metrics do not say that the disk does not answer")
	}
	fs.Heal()
	if err := <-answered; err != nil {
		t.Errorf("what was sent while the disk did not answer: %v", err)
	}
	awaitHealth(t, broker, http.StatusOK, "serving\n")
	awaitLog(t, broker, "the disk answers again")
	readAndCheck(t, broker.Address, subjects)
	broker.Stop()
}

// awaitLog waits until the broker has logged a sentence.
func awaitLog(t *testing.T, broker *ringlogtest.Broker, sentence string) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for !strings.Contains(broker.Log(), sentence) {
		select {
		case <-deadline.C:
			t.Fatalf("the broker does not log %q", sentence)
		case <-again.C:
		}
	}
}

// awaitHealth waits until the broker says of itself what it should.
func awaitHealth(t *testing.T, broker *ringlogtest.Broker, status int, sentence string) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		answer, err := http.Get("http://" + broker.AdminAddress + "/healthz")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode == status && strings.Contains(string(text), sentence) {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("the broker says %d: %s", answer.StatusCode, text)
		case <-again.C:
		}
	}
}

// TestReadOnlyFileSystem lets ext4 become read-only under a broker that writes to it, as it does by itself when it
// finds something wrong. Readers go on, a start says why it is refused, and when the file system is writable
// again nothing is missing.
func TestReadOnlyFileSystem(t *testing.T) {
	fs := loopfs.New(t, loopfs.Ext4, fullDiskBytes)
	broker := ringlogtest.Start(t, ringlogtest.Options{DataDirectory: filepath.Join(fs.Path, "data")})
	subjects := fillingSubjects(t, broker.Address)
	for _, s := range subjects {
		awaitAcceptance(t, broker.Address, s)
	}
	fs.ReadOnly()
	for _, s := range subjects {
		awaitRefusal(t, broker.Address, s)
	}
	awaitHealth(t, broker, http.StatusServiceUnavailable, "take no more records after a disk failure")
	for _, s := range subjects {
		s.read(t, broker.Address)
	}
	broker.Bury()
	output := refusedStart(t, broker.DataDirectory)
	if !strings.Contains(output, "read-only") || !strings.Contains(output, "mount it for writing") {
		t.Errorf("a start on a read-only file system says: %s", output)
	}
	fs.Remount()
	broker.Restart()
	for _, s := range subjects {
		awaitAcceptance(t, broker.Address, s)
		s.reread()
	}
	readAndCheck(t, broker.Address, subjects)
	broker.Stop()
}

// TestTwoBrokersOnOneDirectory: the second is refused, says who is in its way, and harms nobody.
func TestTwoBrokersOnOneDirectory(t *testing.T) {
	broker := ringlogtest.Start(t, ringlogtest.Options{})
	output := refusedStart(t, broker.DataDirectory)
	if !strings.Contains(output, fmt.Sprintf("locked by process %d;", broker.PID())) || !strings.Contains(output, "--data-dir") {
		t.Errorf("a second broker on one directory says: %s", output)
	}
	awaitHealth(t, broker, http.StatusOK, "serving")
	broker.Stop()
}

// refusedStart starts a broker that must end by itself, with exit code 1, and returns what it says.
func refusedStart(t *testing.T, directory string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	output, err := exec.CommandContext(ctx, ringlogtest.Binary(t), "serve", "--data-dir", directory, "--kafka-addr", "127.0.0.1:0", "--admin-addr", "off").CombinedOutput()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != 1 {
		t.Fatalf("a broker that cannot start ends with %v and says: %s", err, output)
	}
	return string(output)
}
