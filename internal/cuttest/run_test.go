package cuttest

import (
	"context"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ringlog/buffer"
	"ringlog/engine"
	"ringlog/engine/disk"
	"ringlog/engine/disk/backend"
	"ringlog/internal/loopfs"
	"ringlog/record"
	"ringlog/replica"
)

const (
	segmentBytes = 24 << 10 // small: logs roll all the time
	poolBytes    = 8 << 20
	readBytes    = 1 << 20
	// patience is how long anything may take that must end by itself.
	patience = 60 * time.Second
)

// run is one run of an engine, from its start to its end.
type run struct {
	t       *testing.T
	fs      *loopfs.FileSystem
	engine  *engine.Engine
	pools   [2]*buffer.Pool
	timer   *time.Timer
	once    sync.Once   // the power is cut, or never will be
	cutting atomic.Bool // errors are to be expected from here on
	cut     chan struct{}
}

// start runs an engine on a file system, the power of which is cut by an aim.
func start(t *testing.T, fs *loopfs.FileSystem, mode string, a aim, lie disk.Kind, prewrite bool) (*run, error) {
	r := &run{t: t, fs: fs, cut: make(chan struct{})}
	for i, name := range []string{"tail", "cold"} {
		r.pools[i] = buffer.NewPool(name, poolBytes)
	}
	root := filepath.Join(fs.Path, "data")
	if err := os.MkdirAll(root, 0o700); err != nil {
		t.Fatal(err)
	}
	if a.within > 0 {
		r.timer = time.AfterFunc(a.within, r.pull)
	}
	var err error
	r.engine, err = engine.New(engine.Options{
		OpenDisk: func() (disk.Disk, error) {
			d, err := backend.Open(root, mode, backend.Options{})
			if err != nil {
				return nil, err
			}
			if !d.Info().Direct {
				t.Error("the file system takes O_DIRECT and the disk does not use it")
			}
			return &wire{Disk: d, aim: a, pull: r.pull, lie: lie}, nil
		},
		Tail: r.pools[0], Cold: r.pools[1],
		Prewrite:           prewrite,
		JournalBytes:       *journalFlag,
		CheckpointInterval: 10 * time.Millisecond,
		RetentionInterval:  20 * time.Millisecond,
	})
	return r, err
}

// pull cuts the power, once.
func (r *run) pull() {
	r.once.Do(func() {
		r.cutting.Store(true)
		if err := r.fs.Cut(); err != nil {
			r.t.Error(err)
		}
		close(r.cut)
	})
}

// disarm lets the run go on without a cut. It returns false when it is too late.
func (r *run) disarm() bool {
	disarmed := false
	r.once.Do(func() { disarmed = true })
	return disarmed
}

// isCut says that the power is gone: nothing that is submitted from here on may succeed.
func (r *run) isCut() bool {
	select {
	case <-r.cut:
		return true
	default:
		return false
	}
}

// end closes the engine, whatever its disk does by now, and takes its memory back.
func (r *run) end() {
	r.t.Helper()
	if r.timer != nil {
		r.timer.Stop()
	}
	if r.engine != nil {
		ctx, done := context.WithTimeout(context.Background(), patience)
		defer done()
		if err := r.engine.Close(ctx); err != nil && !r.cutting.Load() {
			r.t.Errorf("close: %v", err)
		}
		if ctx.Err() != nil {
			r.t.Fatalf("the engine does not end: it waits for %v", r.engine.Closing())
		}
	}
	for _, pool := range r.pools {
		if n := pool.InUseBytes(); n > 0 {
			r.t.Errorf("%d bytes of pool %s are in use after the engine's end", n, pool.Name())
			return
		}
		if err := pool.Close(); err != nil {
			r.t.Error(err)
		}
	}
}

func spec(l *Ledger, retain bool) engine.LogSpec {
	return engine.LogSpec{ID: l.ID, Label: l.Label, Config: config(l, retain), Replica: replica.New(replica.Options{})}
}

// config keeps everything unless retain is set: what a start finds is compared
// before retention takes of it.
func config(l *Ledger, retain bool) engine.LogConfig {
	c := engine.LogConfig{SegmentBytes: segmentBytes, IndexIntervalBytes: 2048, RetentionMillis: -1, RetentionBytes: -1, FileDeleteMillis: 1, Delete: true}
	if l.Relaxed {
		c.FlushMessages, c.FlushMillis = 1000, 5
	}
	if l.Retains && retain {
		c.RetentionBytes = 3 * segmentBytes
	}
	return c
}

// contents is what a start found of one log.
type contents struct {
	frontiers engine.Frontiers
	batches   []Placed
	checksum  uint32 // of every byte as it was served
}

func (c contents) String() string {
	return fmt.Sprintf("[%d, %d) in %d batches, checksum %08x", c.frontiers.Start, c.frontiers.Next, len(c.batches), c.checksum)
}

// readAll reads a log from its start to its high watermark.
func (r *run) readAll(l *Ledger, log *engine.Log) (c contents, err error) {
	c.frontiers = log.Frontiers()
	for offset := c.frontiers.Start; offset < c.frontiers.HighWatermark; {
		answered := make(chan struct{})
		read := &engine.Read{
			Parts:    []engine.ReadPart{{Log: log, Offset: offset, BytesMax: readBytes}},
			BytesMax: readBytes, BytesMin: 1,
			Done: func(*engine.Read) { close(answered) },
		}
		r.engine.Read(read)
		select {
		case <-answered:
		case <-time.After(patience):
			r.t.Fatalf("a read of %s at %d is not answered", l.Label, offset)
		}
		before := offset
		offset, err = c.add(l, &read.Parts[0], offset)
		read.Release()
		if err != nil {
			return c, fmt.Errorf("read %s at %d: %w", l.Label, before, err)
		}
		if offset == before {
			return c, fmt.Errorf("read %s at %d: nothing is there below the high watermark %d", l.Label, offset, c.frontiers.HighWatermark)
		}
	}
	return c, nil
}

// add takes the answer of a read at offset and returns where to go on.
func (c *contents) add(l *Ledger, part *engine.ReadPart, offset int64) (int64, error) {
	for _, bytes := range part.Batches {
		c.checksum = crc32.Update(c.checksum, crc32.IEEETable, bytes)
		for len(bytes) > 0 {
			batch, rest, err := record.Next(bytes)
			if err != nil {
				return offset, err
			}
			b, err := l.Identify(batch)
			if err != nil {
				return offset, err
			}
			c.batches = append(c.batches, Placed{batch.BaseOffset(), b})
			offset, bytes = batch.LastOffset()+1, rest
		}
	}
	return offset, part.Err
}
