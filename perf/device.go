package perf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"ringlog/buffer"
	"ringlog/engine/disk"
	"ringlog/engine/disk/backend"
)

// FlushMode says when a device run flushes.
type FlushMode string

const (
	// FlushNone never flushes: latency is that of the writes.
	FlushNone FlushMode = "none"
	// FlushGroup flushes each file back to back, the next when the last ended:
	// group commit. Latency is from the submission of a write to the end of the
	// flush that covers it.
	FlushGroup FlushMode = "group"
	// FlushEach flushes after every write, before the next of that file.
	FlushEach FlushMode = "each"
)

// DeviceOptions say what Device does. Zero means the default that the field names.
type DeviceOptions struct {
	// DataDir receives the files, removed at the end. Required.
	DataDir string `json:"data_dir"`
	// ChunkBytes is the size of a write, a multiple of 4096. Default 256 KiB.
	ChunkBytes int `json:"chunk_bytes"`
	// Depth is the number of writes in flight, all files together. Default 8.
	Depth int `json:"depth"`
	// Files are written round robin. Default 1.
	Files int `json:"files"`
	// FileBytes is the space of all files together; each is written from its
	// start again when it is full. Default 1 GiB.
	FileBytes int64 `json:"file_bytes"`
	// History of the files. Default Recycled.
	History History `json:"history"`
	// Flush is the flush mode. Default FlushNone.
	Flush FlushMode `json:"flush"`
	// Disk is the mode of engine/disk/backend: auto, uring, portable or giouring. Default auto.
	Disk string `json:"disk"`
	// Duration of the run. Default 10 s.
	Duration time.Duration `json:"duration_ns"`
}

// EnsureDefaults fills in what is zero.
func (o *DeviceOptions) EnsureDefaults() {
	setDefault(&o.ChunkBytes, 256<<10)
	setDefault(&o.Depth, 8)
	setDefault(&o.Files, 1)
	setDefault(&o.FileBytes, 1<<30)
	setDefault(&o.History, Recycled)
	setDefault(&o.Flush, FlushNone)
	setDefault(&o.Disk, "auto")
	setDefault(&o.Duration, 10*time.Second)
}

// Validate reports everything that is wrong.
func (o *DeviceOptions) Validate() error {
	var faults []error
	require := func(ok bool, format string, arguments ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("perf: "+format, arguments...))
		}
	}
	require(o.DataDir != "", "the device run needs a data directory")
	require(o.ChunkBytes > 0 && o.ChunkBytes%disk.BlockBytes == 0 && o.ChunkBytes <= 128<<20,
		"chunk bytes %d are no multiple of %d up to 128 MiB", o.ChunkBytes, disk.BlockBytes)
	require(o.Depth > 0 && o.Depth <= 1<<16, "depth %d", o.Depth)
	require(o.Files > 0, "%d files", o.Files)
	require(o.FileBytes > 0, "file bytes %d", o.FileBytes)
	require(o.History == Recycled || o.History == Prepared, "history %q is neither %q nor %q", o.History, Recycled, Prepared)
	require(o.Flush == FlushNone || o.Flush == FlushGroup || o.Flush == FlushEach, "flush %q is none of %q, %q, %q", o.Flush, FlushNone, FlushGroup, FlushEach)
	require(o.Duration > 0, "duration %v", o.Duration)
	return errors.Join(faults...)
}

// Device measures the disk alone: writes of one size, a number of them in
// flight, from one goroutine that owns the disk. Requests of the report are
// writes (with FlushEach or FlushGroup: made durable), records stay zero.
func Device(ctx context.Context, options DeviceOptions) (report Report, err error) {
	options.EnsureDefaults()
	report = Report{Kind: "device", Parameters: options, Environment: CurrentEnvironment()}
	if err := options.Validate(); err != nil {
		return report, err
	}
	if err := os.MkdirAll(options.DataDir, 0o755); err != nil {
		return report, fmt.Errorf("perf: device: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- runDevice(ctx, &options, &report) }() // the disk locks its owner to a thread
	err = <-ended
	return report, err
}

// deviceFile is a file of a device run. Its writes complete in any order; a flush covers
// those that completed before it was submitted.
type deviceFile struct {
	file     disk.File
	position int64 // of the next write
	writing  int   // writes in flight
	written  []*deviceWrite
	flushing []*deviceWrite
	flush    disk.Operation
	inFlush  bool
}

// deviceWrite is a write, from its submission until it counts.
type deviceWrite struct {
	operation disk.Operation
	file      *deviceFile
	since     time.Time
}

// device is a run: owned by the goroutine that owns the disk.
type device struct {
	options   *DeviceOptions
	disk      disk.Disk
	files     []*deviceFile
	idle      []*deviceWrite
	turn      int // the file that is next
	fileBytes int64
	latency   *hdrhistogram.Histogram
	done      int64
	finished  []*disk.Operation
}

func runDevice(ctx context.Context, o *DeviceOptions, report *Report) (err error) {
	// A block of the pool is a power of two: room for all, twice over.
	pool := buffer.NewPool("perf device", 2*int64(o.ChunkBytes)*int64(o.Depth+1)+4<<20)
	defer func() { err = errors.Join(err, pool.Close()) }()
	var memory []*buffer.Buffer
	defer func() { // after the disk is closed: what is in flight uses it
		for _, b := range memory {
			b.Release()
		}
	}()
	d, err := backend.Open(o.DataDir, o.Disk, backend.Options{})
	if err != nil {
		return fmt.Errorf("perf: device: %w", err)
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	report.Notes = append(report.Notes, fmt.Sprintf("disk %s, direct %v", d.Info().Name, d.Info().Direct))
	run := &device{
		options: o, disk: d, latency: NewHistogram(),
		fileBytes: max(o.FileBytes/int64(o.Files)/int64(o.ChunkBytes), 1) * int64(o.ChunkBytes),
	}
	for range o.Depth {
		b, err := pool.Get(ctx, o.ChunkBytes)
		if err != nil {
			return fmt.Errorf("perf: device: %w", err)
		}
		memory = append(memory, b)
		bytes := b.Bytes()[:o.ChunkBytes:o.ChunkBytes]
		for i := range bytes {
			bytes[i] = byte(i * 7) // not zeros: some devices treat those specially
		}
		run.idle = append(run.idle, &deviceWrite{operation: disk.Operation{Buffer: bytes}})
	}
	p := &Preparer{Disk: d}
	files, err := p.Make(o.Files, run.fileBytes, o.History, run.idle[0].operation.Buffer)
	defer func() { err = errors.Join(err, p.Remove(files)) }()
	if err != nil {
		return err
	}
	for _, file := range files {
		run.files = append(run.files, &deviceFile{file: file})
	}
	report.Started = time.Now()
	meter := StartCPUMeter(0)
	start := time.Now()
	err = run.loop(ctx, start.Add(o.Duration))
	report.CPU = meter.Stop()
	report.Requests = run.done
	report.Bytes = run.done * int64(o.ChunkBytes)
	report.AckLatency = Summarise(run.latency)
	report.setRates(time.Since(start))
	return err
}

// loop keeps the device busy until the deadline, and then waits for what is in flight.
func (r *device) loop(ctx context.Context, deadline time.Time) error {
	for now := time.Now(); ; {
		if now.Before(deadline) && ctx.Err() == nil {
			r.submit(now)
		}
		for _, f := range r.files {
			r.maybeFlush(f)
		}
		if r.disk.InFlight() == 0 {
			return context.Cause(ctx)
		}
		var err error
		if r.finished, err = r.disk.Wait(r.finished[:0], -1); err != nil {
			return fmt.Errorf("perf: device: %w", err)
		}
		now = time.Now()
		for _, op := range r.finished {
			if op.Err == nil && op.Kind == disk.Write && op.Done != len(op.Buffer) {
				op.Err = fmt.Errorf("write of %d bytes stopped after %d", len(op.Buffer), op.Done)
			}
			if op.Err != nil {
				return fmt.Errorf("perf: device: %w", op.Err)
			}
			r.completed(op, now)
		}
	}
}

// submit starts writes while there are idle ones and a file may take one.
func (r *device) submit(now time.Time) {
	for tried := 0; tried < len(r.files) && len(r.idle) > 0; {
		f := r.files[r.turn]
		r.turn = (r.turn + 1) % len(r.files)
		meets := int64(f.writing+1)*int64(r.options.ChunkBytes) > r.fileBytes // the write around a small file
		busy := f.writing > 0 || len(f.written) > 0 || f.inFlush
		if meets || busy && r.options.Flush == FlushEach {
			tried++
			continue
		}
		tried = 0
		w := r.idle[len(r.idle)-1]
		r.idle = r.idle[:len(r.idle)-1]
		w.file, w.since = f, now
		w.operation = disk.Operation{Kind: disk.Write, File: f.file, Buffer: w.operation.Buffer, Offset: f.position, Owner: w}
		f.position = (f.position + int64(r.options.ChunkBytes)) % r.fileBytes
		f.writing++
		r.disk.Submit(&w.operation)
	}
}

func (r *device) maybeFlush(f *deviceFile) {
	if f.inFlush || len(f.written) == 0 {
		return
	}
	f.inFlush = true
	f.flushing, f.written = f.written, f.flushing[:0]
	f.flush = disk.Operation{Kind: disk.Flush, File: f.file, Owner: f}
	r.disk.Submit(&f.flush)
}

// completed counts a write that is as durable as the mode asks; its place in the
// queue is free once it is written, but in FlushGroup its buffer stays with it
// until it counts, so that Depth bounds what is not durable.
func (r *device) completed(op *disk.Operation, now time.Time) {
	switch owner := op.Owner.(type) {
	case *deviceWrite:
		f := owner.file
		f.writing--
		if r.options.Flush == FlushNone {
			r.count(owner, now)
		} else {
			f.written = append(f.written, owner)
		}
	case *deviceFile:
		owner.inFlush = false
		for _, w := range owner.flushing {
			r.count(w, now)
		}
		owner.flushing = owner.flushing[:0]
	}
}

func (r *device) count(w *deviceWrite, now time.Time) {
	RecordLatency(r.latency, now.Sub(w.since), 1)
	r.done++
	r.idle = append(r.idle, w)
}
