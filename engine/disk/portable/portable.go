// Package portable is the disk.Disk for every machine: blocking system calls
// on a bounded pool of goroutines. It serves where the kernel or the container
// refuses io_uring, on other systems than Linux, and in tests that want a real
// file system. Package backend and tests make it; the goroutine that made it
// owns it, and only the pool's workers run beside the owner.
//
// A job travels owner → jobs channel → worker → done list → owner. The owner
// alone touches the file table; a worker gets the descriptor with the job and
// hands back what an Open opened. So the one shared datum is the done list.
package portable

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"ringlog/engine/disk"
	"ringlog/engine/disk/internal/handle"
	"ringlog/engine/disk/internal/system"
)

// Defaults of Options.
const (
	// DefaultWorkers is the number of goroutines in blocking calls. 16 is twice
	// the depth at which the measured device is busy (8 writes of 256 KiB).
	DefaultWorkers = 16
	// queuedPerWorker bounds the jobs channel: enough that no worker waits for
	// the owner's next Wait, few enough that a queue never hides a slow device.
	queuedPerWorker = 4
)

// Options shape a Disk; the zero value is the default.
type Options struct {
	// Workers is the number of operations that may block at a time; 0 means DefaultWorkers.
	Workers int
	// Buffered asks for the page cache even where the file system takes O_DIRECT.
	Buffered bool
	// Reason is what Info says of why this implementation was chosen; "" when it was asked for.
	Reason string
}

// Disk implements disk.Disk.
type Disk struct {
	workers sync.WaitGroup
	jobs    chan job      // closed by Close
	wake    chan struct{} // holds one token: wakes before the next Wait merge
	arrived chan struct{} // holds one token: the done list is not empty

	finished struct {
		sync.Mutex
		jobs []job // in the order in which the workers finished
	}

	// What follows belongs to the owner.
	root     *os.Root
	files    handle.Table[*openFile]
	backlog  []*disk.Operation // submitted, not handed to the workers; from head on
	head     int               // of backlog
	ended    []*disk.Operation // finished or refused: the next Wait returns them
	taken    []job             // the done list of the last Wait, swapped to spare an allocation
	inFlight int
	info     disk.Info
	closed   bool
	timer    *time.Timer
}

// openFile is one open file. Workers read it and never change it.
type openFile struct {
	path string
	file *os.File
}

// job is one operation on its way to a worker and back.
type job struct {
	op     *disk.Operation
	target *openFile // of File; after an Open: what was opened
}

// New returns a Disk on the directory root, which must exist, owned by the
// calling goroutine. It starts Options.Workers goroutines that Close ends.
func New(root string, options Options) (disk.Disk, error) {
	handleRoot, err := os.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("disk: open root: %w", err)
	}
	if options.Workers <= 0 {
		options.Workers = DefaultWorkers
	}
	d := &Disk{
		root: handleRoot,
		info: disk.Info{
			Name:   "portable",
			Direct: !options.Buffered && system.TakesDirect(handleRoot),
			Reason: options.Reason,
		},
		jobs:    make(chan job, options.Workers*queuedPerWorker),
		wake:    make(chan struct{}, 1),
		arrived: make(chan struct{}, 1),
		timer:   time.NewTimer(time.Hour),
	}
	d.timer.Stop()
	d.workers.Add(options.Workers)
	for range options.Workers {
		go d.work()
	}
	return d, nil
}

// Submit queues op for the next Wait.
func (d *Disk) Submit(op *disk.Operation) {
	op.Done, op.Err = 0, nil
	d.inFlight++
	if d.closed {
		d.refuse(op, op.Path, disk.ErrClosed)
		return
	}
	if err := op.Check(); err != nil {
		d.refuse(op, d.pathOf(op), err)
		return
	}
	d.backlog = append(d.backlog, op)
}

// Wait hands queued operations to the workers and returns finished ones.
func (d *Disk) Wait(finished []*disk.Operation, timeout time.Duration) ([]*disk.Operation, error) {
	if d.closed {
		return d.takeFinished(finished), disk.ErrClosed
	}
	d.handOver()
	before := len(finished)
	finished = d.takeFinished(finished)
	if len(finished) > before || timeout == 0 {
		d.forgetWake()
		return finished, nil
	}
	var expired <-chan time.Time
	if timeout > 0 {
		d.timer.Reset(timeout)
		defer d.timer.Stop()
		expired = d.timer.C
	}
	for {
		select {
		case <-d.arrived:
			d.handOver()
			finished = d.takeFinished(finished)
			if len(finished) > before {
				return finished, nil
			}
			// A token of operations that an earlier Wait has taken.
		case <-d.wake:
			return finished, nil
		case <-expired:
			return finished, nil
		}
	}
}

// Wake makes a Wait return.
func (d *Disk) Wake() {
	select {
	case d.wake <- struct{}{}:
	default: // one is waiting already
	}
}

// InFlight is the number of operations not yet returned by Wait.
func (d *Disk) InFlight() int { return d.inFlight }

// Info describes this implementation.
func (d *Disk) Info() disk.Info { return d.info }

// Close waits for the workers, closes every file and the root. What the
// workers did not start ends with ErrClosed; one last Wait returns it all.
func (d *Disk) Close() error {
	if d.closed {
		return disk.ErrClosed
	}
	d.closed = true
	close(d.jobs)
	d.workers.Wait()
	for _, op := range d.backlog[d.head:] {
		d.refuse(op, d.pathOf(op), disk.ErrClosed)
	}
	d.backlog, d.head = nil, 0
	d.collect()
	var first error
	d.files.All(func(_ disk.File, f *openFile) {
		if err := f.file.Close(); err != nil && first == nil {
			first = fmt.Errorf("disk: close %s: %w", f.path, err)
		}
	})
	d.files = handle.Table[*openFile]{}
	if err := d.root.Close(); err != nil && first == nil {
		first = fmt.Errorf("disk: close root: %w", err)
	}
	return first
}

// refuse ends op without any worker having seen it.
func (d *Disk) refuse(op *disk.Operation, path string, cause error) {
	op.Fail(path, cause)
	d.ended = append(d.ended, op)
}

// pathOf names what op acts on.
func (d *Disk) pathOf(op *disk.Operation) string {
	if f, ok := d.files.Get(op.File); ok && op.Kind.UsesFile() {
		return f.path
	}
	return op.Path
}

// handOver gives the backlog to the workers, as far as the channel takes it.
func (d *Disk) handOver() {
	for d.head < len(d.backlog) {
		op := d.backlog[d.head]
		next := job{op: op}
		if op.Kind.UsesFile() {
			var ok bool
			if next.target, ok = d.files.Get(op.File); !ok {
				d.refuse(op, op.Path, syscall.EBADF)
				d.advance()
				continue
			}
		}
		select {
		case d.jobs <- next:
			if op.Kind == disk.Close {
				d.files.Remove(op.File) // from here on the number names nothing
			}
			d.advance()
		default:
			return
		}
	}
}

// advance drops the first of the backlog and starts over at the slice's
// beginning when it is empty, so that its memory is used again.
func (d *Disk) advance() {
	d.backlog[d.head] = nil
	d.head++
	if d.head == len(d.backlog) {
		d.backlog, d.head = d.backlog[:0], 0
	}
}

// takeFinished appends all that has finished to finished.
func (d *Disk) takeFinished(finished []*disk.Operation) []*disk.Operation {
	if !d.closed {
		d.collect()
	}
	d.inFlight -= len(d.ended)
	finished = append(finished, d.ended...)
	clear(d.ended)
	d.ended = d.ended[:0]
	return finished
}

// collect moves what the workers finished to the ended list, registering
// the files that were opened.
func (d *Disk) collect() {
	d.finished.Lock()
	d.taken, d.finished.jobs = d.finished.jobs, d.taken[:0]
	d.finished.Unlock()
	for _, done := range d.taken {
		if done.op.Kind == disk.Open && done.op.Err == nil {
			d.register(done)
		}
		d.ended = append(d.ended, done.op)
	}
	clear(d.taken)
}

// register gives a file that a worker opened its number.
func (d *Disk) register(done job) {
	file, ok := d.files.Add(done.target)
	if !ok {
		done.target.file.Close()
		done.op.Fail(done.op.Path, syscall.EMFILE)
		return
	}
	done.op.File = file
}

// forgetWake drops a token: the Wait that returns now is the one it asked for.
func (d *Disk) forgetWake() {
	select {
	case <-d.wake:
	default:
	}
}

// work is one worker: it blocks in system calls so that the owner need not.
func (d *Disk) work() {
	defer d.workers.Done()
	for next := range d.jobs {
		d.run(&next)
		d.finished.Lock()
		d.finished.jobs = append(d.finished.jobs, next)
		d.finished.Unlock()
		// From here on the operation is the owner's.
		select {
		case d.arrived <- struct{}{}:
		default:
		}
	}
}
