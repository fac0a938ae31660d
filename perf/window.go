package perf

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Window is what happened in one interval of a run. A reply counts in the window
// in which it came, with all of its latency; the windows of a run add up to its report.
type Window struct {
	// Kind is "window", where windows and reports stand in one stream.
	Kind string `json:"kind"`
	// Started is when the window began, Seconds how long it was: the interval, the
	// last one of a run less or a little more.
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"`

	Requests         int64   `json:"requests"`
	Records          int64   `json:"records"`
	Bytes            int64   `json:"bytes"`
	RecordsPerSecond float64 `json:"records_per_s"`
	MBPerSecond      float64 `json:"mb_per_s"` // 10^6 bytes

	// AckLatency is absent when nothing was acknowledged.
	AckLatency *Latency         `json:"ack_latency_us,omitempty"`
	Errors     map[string]int64 `json:"errors,omitempty"`
	CPU        CPU              `json:"cpu"`
	// ServerResidentBytes is the memory of the server at the end of the window, when its process is known.
	ServerResidentBytes int64 `json:"server_resident_bytes,omitempty"`
}

// tally is what one connection did in the present window. Its reader (without
// acknowledgements its writer) adds under the lock, taken once for all that
// came together; the window's goroutine takes what is there.
type tally struct {
	mu struct {
		sync.Mutex
		latency                 *hdrhistogram.Histogram
		requests, refused, size int64
		errors                  map[string]int64
	}
}

func newTally() *tally {
	t := new(tally)
	t.mu.latency = NewHistogram()
	t.mu.errors = make(map[string]int64)
	return t
}

// The methods that a connection calls do nothing on a nil tally: most runs have no windows.

func (t *tally) lock() {
	if t != nil {
		t.mu.Lock()
	}
}

func (t *tally) unlock() {
	if t != nil {
		t.mu.Unlock()
	}
}

// replyLocked counts one reply: an error's name, or "" and the bytes that it acknowledged.
func (t *tally) replyLocked(latency time.Duration, refusal string, bytes int) {
	if t == nil {
		return
	}
	RecordLatency(t.mu.latency, latency, 1)
	t.mu.requests++
	if refusal != "" {
		t.mu.refused++
		t.mu.errors[refusal]++
		return
	}
	t.mu.size += int64(bytes)
}

// sent counts requests that nobody answers.
func (t *tally) sent(requests, bytes int) {
	t.lock()
	defer t.unlock()
	if t != nil {
		t.mu.requests += int64(requests)
		t.mu.size += int64(bytes)
	}
}

// windows cuts a run into intervals.
type windows struct {
	producers []*producer
	serverPID int
	report    func(Window)
	start     time.Time
	meter     *CPUMeter
	latency   *hdrhistogram.Histogram
	stop      func()
}

// startWindows begins, if load asks for windows. finish has to be called.
func startWindows(load *Load, producers []*producer, serverPID int, start time.Time) *windows {
	if load.Interval <= 0 || load.OnWindow == nil {
		return nil
	}
	w := &windows{
		producers: producers, serverPID: serverPID, report: load.OnWindow, start: start,
		meter: StartCPUMeter(serverPID), latency: NewHistogram(),
	}
	for _, p := range producers {
		p.tally = newTally()
	}
	w.stop = every(load.Interval, w.cut)
	return w
}

// every calls do again and again, until the function that it returns is called, which
// waits until the last call is over.
func every(interval time.Duration, do func()) (stop func()) {
	tick, ended := time.NewTicker(interval), make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				do()
			case <-ended:
				return
			}
		}
	})
	return func() {
		close(ended)
		running.Wait()
	}
}

// finish reports what is left, after the last connection has ended.
func (w *windows) finish() {
	if w == nil {
		return
	}
	w.stop()
	w.cut()
}

// cut ends the present window and begins the next.
func (w *windows) cut() {
	now := time.Now()
	result := Window{
		Kind: "window", Started: w.start, Seconds: now.Sub(w.start).Seconds(),
		CPU: w.meter.Stop(), ServerResidentBytes: residentBytes(w.serverPID),
	}
	w.start, w.meter = now, StartCPUMeter(w.serverPID)
	w.latency.Reset()
	for _, p := range w.producers {
		t := p.tally
		t.lock()
		result.Requests += t.mu.requests
		result.Records += (t.mu.requests - t.mu.refused) * p.records
		result.Bytes += t.mu.size
		for name, count := range t.mu.errors {
			if result.Errors == nil {
				result.Errors = make(map[string]int64)
			}
			result.Errors[name] += count
		}
		w.latency.Merge(t.mu.latency)
		t.mu.latency.Reset()
		clear(t.mu.errors)
		t.mu.requests, t.mu.refused, t.mu.size = 0, 0, 0
		t.unlock()
	}
	if result.Seconds > 0 {
		result.RecordsPerSecond = float64(result.Records) / result.Seconds
		result.MBPerSecond = float64(result.Bytes) / 1e6 / result.Seconds
	}
	result.AckLatency = Summarise(w.latency)
	w.report(result)
}
