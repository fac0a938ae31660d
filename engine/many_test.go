package engine

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"ringlog/buffer"
	"ringlog/engine/disk"
	"ringlog/engine/disk/backend"
)

// How long an engine with many logs takes to close in order, to open again, and to recover when
// it was killed with what its journal holds. On a real directory:
//
//	go test ./engine -run - -bench ManyLogs -benchtime 1x
func BenchmarkManyLogs(b *testing.B) {
	for _, count := range []int{2_000, 10_000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			root := b.TempDir()
			for b.Loop() {
				manyLogs(b, root, count)
			}
		})
	}
}

// manyOpens is how many logs are opened at a time.
const manyOpens = 64

type many struct {
	*Engine
	tail, cold *buffer.Pool
	logs       []*Log
}

// openMany opens an engine and its logs, and says how long each took.
func openMany(b *testing.B, root string, count int) (m *many, started, opened time.Duration) {
	m = &many{tail: buffer.NewPool("tail", 512<<20), cold: buffer.NewPool("cold", 64<<20), logs: make([]*Log, count)}
	began := time.Now()
	e, err := New(Options{
		OpenDisk: func() (disk.Disk, error) { return backend.Open(root, "auto", backend.Options{}) },
		Tail:     m.tail, Cold: m.cold, JournalBytes: 128 << 20,
	})
	if err != nil {
		b.Fatal(err)
	}
	started = time.Since(began)
	began = time.Now()
	m.Engine = e
	var wait sync.WaitGroup
	for worker := range manyOpens {
		wait.Go(func() {
			for n := worker; n < count; n += manyOpens {
				l, err := e.Create(context.Background(), LogSpec{ID: numbered(n), Label: fmt.Sprintf("log-%d", n), Replica: new(aloneReplica)})
				if err == nil {
					err = e.Lead(context.Background(), numbered(n), l.lastEpoch()+1)
				}
				if err != nil {
					b.Error(err)
					return
				}
				m.logs[n] = l
			}
		})
	}
	wait.Wait()
	return m, started, time.Since(began)
}

type answer struct{ ended chan error }

func (answer) Consumed(*AppendGroup) {}
func (a answer) Answered(g *AppendGroup) {
	var err error
	for i := range g.Appends {
		if g.Appends[i].Err != nil {
			err = g.Appends[i].Err
		}
	}
	a.ended <- err
}

// append appends a batch of size bytes to every log.
func (m *many) append(b *testing.B, size int) {
	const together = 500
	owner := answer{make(chan error, len(m.logs))}
	groups := 0
	for from := 0; from < len(m.logs); from += together {
		g := &AppendGroup{Owner: owner}
		for _, l := range m.logs[from:min(from+together, len(m.logs))] {
			g.Appends = append(g.Appends, Append{Log: l, Batch: batchOf(uint64(from), 1, size, 1)})
		}
		m.Append(g)
		groups++
	}
	for range groups {
		if err := <-owner.ended; err != nil {
			b.Fatal(err)
		}
	}
}

// kill ends the engine as kill -9 does.
func (m *many) kill() {
	for _, s := range m.shards {
		s.halted.Store(true)
		s.inbox.send(message{})
	}
	<-m.rested
}

func (m *many) release() {
	_ = m.tail.Close()
	_ = m.cold.Close()
}

func manyLogs(b *testing.B, root string, count int) {
	m, _, created := openMany(b, root, count)
	began := time.Now()
	m.append(b, 1000)
	prepared := time.Since(began) // the first append of a log makes room for more
	began = time.Now()
	if err := m.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
	closed := time.Since(began)
	m.release()

	m, started, opened := openMany(b, root, count)
	began = time.Now()
	if err := m.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
	idle := time.Since(began)
	m.release()

	m, _, _ = openMany(b, root, count)
	began = time.Now()
	for range 50 << 20 / (count * 1100) {
		m.append(b, 1000)
	}
	filled := time.Since(began)
	m.kill()
	m.release()
	m, merged, recovered := openMany(b, root, count)
	if err := m.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
	m.release()
	for name, took := range map[string]time.Duration{
		"s-create": created, "s-first-append": prepared, "s-fill": filled, "s-close": closed, "s-close-idle": idle, "s-start": started, "s-open": opened,
		"s-merge": merged, "s-open-after-kill": recovered,
	} {
		b.ReportMetric(took.Seconds(), name)
	}
	b.ReportMetric(0, "ns/op")
}
