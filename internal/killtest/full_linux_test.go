package killtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sys/unix"

	"ringlog/internal/loopfs"
	"ringlog/internal/ringlogtest"
)

// TestFullDisk fills a file system and lets a broker work on it. Scenario 14 of
// docs/reliability.md: produces are refused in a way that clients try again, fetches,
// deletions, stops, kills and starts go on as before, and when there is space again
// the refused producers go on by themselves.
func TestFullDisk(t *testing.T) {
	t.Run("ext4, a topic is deleted", func(t *testing.T) {
		testFullDisk(t, loopfs.Ext4, func(v *victims, _ *ballast) { v.delete(largeVictim) })
	})
	t.Run("xfs, somebody else makes room", func(t *testing.T) {
		testFullDisk(t, loopfs.XFS, func(_ *victims, b *ballast) { b.remove() })
	})
}

// fullDiskBytes is more than the broker takes of it before somebody else takes the rest.
const fullDiskBytes = 512 << 20

func testFullDisk(t *testing.T, kind loopfs.Kind, makeRoom func(*victims, *ballast)) {
	fs := loopfs.New(t, kind, fullDiskBytes)
	broker := ringlogtest.Start(t, ringlogtest.Options{DataDirectory: filepath.Join(fs.Path, "data")})
	victims := newVictims(t, broker.Address)
	subjects := fillingSubjects(t, broker.Address)
	watch(t, broker.Address, subjects)
	random := rand.New(rand.NewPCG(1, 1))
	before := startLoad(t, subjects, random)
	for _, s := range subjects {
		awaitAcceptance(t, broker.Address, s)
	}
	before.finish()

	// The last block goes while nobody looks: what the broker has in reserve is its own.
	broker.Stop()
	ballast := newBallast(t, fs)
	ballast.fill()
	broker.Restart()
	load := startLoad(t, subjects, random)
	for _, restart := range []func(){broker.Stop, broker.Kill, func() {}} {
		for _, s := range subjects {
			awaitRefusal(t, broker.Address, s)
			s.read(t, broker.Address)
		}
		victims.deleteSmall()
		if restart(); !broker.Running() {
			broker.Restart()
		}
	}

	makeRoom(victims, ballast)
	for _, s := range subjects {
		awaitAcceptance(t, broker.Address, s)
	}
	ballast.remove()
	load.finish()
	readAndCheck(t, broker.Address, subjects)
	broker.Kill()
	broker.Restart()
	for _, s := range subjects {
		s.reread()
	}
	readAndCheck(t, broker.Address, subjects)
	broker.Stop()
	t.Logf("three lives on a full disk: %s", totals(subjects))
}

// TestNearlyFullDisk lets a broker fill what it may use of a file system. Produces are refused while
// there is still room for everything else, the broker says so, and what a deleted topic
// gives back is used at once.
func TestNearlyFullDisk(t *testing.T) {
	fs := loopfs.New(t, loopfs.Ext4, fullDiskBytes)
	broker := ringlogtest.Start(t, ringlogtest.Options{DataDirectory: filepath.Join(fs.Path, "data"), Flags: []string{"--set", fmt.Sprint("ringlog.disk.free.min.bytes=", keptBytes)}})
	victims := newVictims(t, broker.Address)
	subjects := fillingSubjects(t, broker.Address)
	ballast := newBallast(t, fs)
	ballast.leave(keptBytes + 12<<20)
	load := startLoad(t, subjects, rand.New(rand.NewPCG(2, 2)))
	for _, s := range subjects {
		awaitRefusal(t, broker.Address, s)
	}
	if free := freeBytes(t, fs); free < keptBytes-1<<20 {
		t.Errorf("%d bytes are free, %d were to be kept", free, keptBytes)
	}
	page := metricsOf(t, broker)
	for _, line := range []string{"ringlog_engine_disk_low 1\n", "ringlog_engine_poisoned_logs 0\n"} {
		if !strings.Contains(page, line) {
			t.Errorf("the metrics do not say %q", line)
		}
	}
	broker.Stop()
	broker.Restart()
	for _, s := range subjects {
		awaitRefusal(t, broker.Address, s)
		s.read(t, broker.Address)
	}
	victims.delete(largeVictim)
	for _, s := range subjects {
		awaitAcceptance(t, broker.Address, s)
	}
	ballast.remove()
	load.finish()
	readAndCheck(t, broker.Address, subjects)
	broker.Stop()
	t.Logf("a disk that is nearly full: %s", totals(subjects))
}

// keptBytes are kept free in TestNearlyFullDisk.
const keptBytes = 32 << 20

// metricsOf reads /metrics.
func metricsOf(t *testing.T, broker *ringlogtest.Broker) string {
	t.Helper()
	answer, err := http.Get("http://" + broker.AdminAddress + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// fillingSubjects are subjects whose logs have little prepared, so that a full disk soon is felt.
func fillingSubjects(t *testing.T, address string) []*subject {
	t.Helper()
	subjects := subjects()
	for i, s := range subjects {
		configs := map[string]string{}
		maps.Copy(configs, s.configs)
		configs["segment.bytes"] = "1048576"
		s.configs = configs
		s.create(t, address, int32(10*i))
	}
	return subjects
}

// awaitRefusal sends records until one is refused, as it must be soon: what is
// prepared for a log is finite. One whose segment cannot be named waits, and its
// client is told so.
func awaitRefusal(t *testing.T, address string, s *subject) {
	t.Helper()
	client := newOnceClient(t, address)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		switch err := s.sendBatch(ctx, client); {
		case err == nil:
		case errors.Is(err, kgo.ErrRecordRetries), kerr.IsRetriable(err): // another client would try again
			return
		default:
			t.Fatalf("a produce to %s on a full disk is answered: %v", s.topic, err)
		}
	}
}

// sendBatch sends many records to the first partition together, waits for all answers and
// returns the first error.
func (s *subject) sendBatch(ctx context.Context, client *kgo.Client) error {
	const count = 100
	names, records := make(map[*kgo.Record]Name, count), make([]*kgo.Record, count)
	for i := range records {
		name := s.history.Send(s.producers[0].number + int32(len(s.producers)))
		records[i] = &kgo.Record{Topic: s.topic, Value: name.Value()}
		names[records[i]] = name
	}
	var first error
	for _, result := range client.ProduceSync(ctx, records...) {
		if result.Err == nil {
			s.history.Acknowledge(names[result.Record], Position{result.Record.Partition, result.Record.Offset})
		} else if first == nil {
			first = result.Err
		}
	}
	return first
}

// awaitAcceptance sends records until one is taken.
func awaitAcceptance(t *testing.T, address string, s *subject) {
	t.Helper()
	client := newOnceClient(t, address)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		err := s.sendOnce(ctx, client)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s after there was space does a produce to %s say: %v", patience, s.topic, err)
		case <-again.C:
		}
	}
}

// victims are topics that are deleted to make room, or to change metadata.
type victims struct {
	t       *testing.T
	admin   *kadm.Client
	address string
	small   int // of those whose files stay for a while, the next to go
}

const (
	largeVictim      = "victim"
	largeVictimBytes = 12 << 20
	smallVictims     = 3
)

func newVictims(t *testing.T, address string) *victims {
	t.Helper()
	client := newClient(t, address, kgo.DefaultProduceTopic(largeVictim))
	v := &victims{t: t, address: address, admin: kadm.NewClient(client)}
	now := "0"
	if _, err := v.admin.CreateTopic(t.Context(), 1, 1, map[string]*string{"file.delete.delay.ms": &now}, largeVictim); err != nil {
		t.Fatal(err)
	}
	for i := range smallVictims {
		if _, err := v.admin.CreateTopic(t.Context(), 1, 1, nil, smallVictim(i)); err != nil {
			t.Fatal(err)
		}
	}
	for range largeVictimBytes >> 19 {
		if err := client.ProduceSync(t.Context(), &kgo.Record{Value: make([]byte, 1<<19)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	return v
}

func smallVictim(number int) string { return fmt.Sprint("small-victim-", number) }

// deleteSmall deletes a topic whose files go later: metadata can be changed.
func (v *victims) deleteSmall() {
	v.t.Helper()
	v.delete(smallVictim(v.small))
	v.small++
}

func (v *victims) delete(topic string) {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.t.Context(), patience)
	defer cancel()
	if _, err := v.admin.DeleteTopic(ctx, topic); err != nil {
		v.t.Fatalf("deleting %s on a full disk: %v", topic, err)
	}
	client := newClient(v.t, v.address) // another one remembers what it saw a moment ago
	defer client.Close()
	listed, err := kadm.NewClient(client).ListTopics(ctx)
	if err != nil || listed.Has(topic) {
		v.t.Fatalf("%s was deleted; it is listed: %t, %v", topic, listed.Has(topic), err)
	}
}

// ballast takes what is left of a file system.
type ballast struct {
	t     *testing.T
	fs    *loopfs.FileSystem
	file  *os.File
	bytes int64
}

func newBallast(t *testing.T, fs *loopfs.FileSystem) *ballast {
	t.Helper()
	file, err := os.Create(filepath.Join(fs.Path, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() }) // it is closed before the file system goes
	return &ballast{t: t, fs: fs, file: file}
}

// fill takes all that is free, to the last block.
func (b *ballast) fill() {
	b.t.Helper()
	b.leave(0)
	for size := 1 << 20; size >= 4096; size >>= 2 { // what is given to writes only
		for content := make([]byte, size); ; {
			n, err := b.file.WriteAt(content, b.bytes)
			b.bytes += int64(n)
			if errors.Is(err, syscall.ENOSPC) {
				break
			}
			if err != nil {
				b.t.Fatal(err)
			}
		}
		// Space that is only promised is no space yet.
		if err := b.file.Sync(); err != nil && !errors.Is(err, syscall.ENOSPC) {
			b.t.Fatal(err)
		}
	}
}

// leave takes all that is free but so many bytes. It takes blocks and writes nothing to them.
func (b *ballast) leave(bytes int64) {
	b.t.Helper()
	for size := int64(64 << 20); size >= 4096; size >>= 1 {
		for bytes == 0 || freeBytes(b.t, b.fs)-size >= bytes {
			err := unix.Fallocate(int(b.file.Fd()), 0, b.bytes, size)
			if errors.Is(err, syscall.ENOSPC) {
				break
			}
			if err != nil {
				b.t.Fatal(err)
			}
			b.bytes += size
		}
	}
}

// freeBytes is what the file system lets others take.
func freeBytes(t *testing.T, fs *loopfs.FileSystem) int64 {
	t.Helper()
	var status unix.Statfs_t
	if err := unix.Statfs(fs.Path, &status); err != nil {
		t.Fatal(err)
	}
	return int64(status.Bavail) * status.Bsize
}

// remove gives it back.
func (b *ballast) remove() {
	b.t.Helper()
	b.bytes = 0
	if err := errors.Join(b.file.Truncate(0), b.file.Sync()); err != nil {
		b.t.Fatal(err)
	}
}
