package perf

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"
)

// Report is the result of one run.
type Report struct {
	// Kind is "produce", "consume", "bare" or "device"; Parameters are the
	// options of the run with their defaults filled in.
	Kind       string `json:"kind"`
	Parameters any    `json:"parameters"`

	Started time.Time `json:"started"`
	// Seconds is the time from the first send to the last reply.
	Seconds  float64 `json:"seconds"`
	Requests int64   `json:"requests"`
	Records  int64   `json:"records"`
	// Bytes are those of the record batches, as they are on the wire.
	Bytes            int64   `json:"bytes"`
	RecordsPerSecond float64 `json:"records_per_s"`
	MBPerSecond      float64 `json:"mb_per_s"` // 10^6 bytes
	RequestsPerS     float64 `json:"requests_per_s"`

	// UnsentRequests were due in an open loop and not sent, because the broker did not take them.
	UnsentRequests int64 `json:"unsent_requests,omitempty"`
	// AckLatency is absent when nothing was acknowledged (acks=0) or measured.
	AckLatency *Latency `json:"ack_latency_us,omitempty"`
	// Errors counts replies that carried an error, by its name.
	Errors map[string]int64 `json:"errors,omitempty"`
	// Engine is what the broker's storage engine did meanwhile, where its metrics could be read.
	Engine *EngineReport `json:"engine,omitempty"`

	CPU         CPU         `json:"cpu"`
	Environment Environment `json:"environment"`
	// Notes are facts that a reader of the figures must know.
	Notes []string `json:"notes,omitempty"`
}

// Latency summarises a histogram, in microseconds.
type Latency struct {
	P50   int64 `json:"p50"`
	P99   int64 `json:"p99"`
	P999  int64 `json:"p999"`
	Max   int64 `json:"max"`
	Count int64 `json:"count"`
}

// Environment is where a run took place.
type Environment struct {
	Kernel string `json:"kernel"`
	CPU    string `json:"cpu_model"`
	Cores  int    `json:"cores"`
	Go     string `json:"go"`
	Commit string `json:"commit,omitempty"`
}

const (
	latencyMicrosMax = 10 * 60 * 1_000_000
	latencyDigits    = 3
)

// NewHistogram makes a histogram of latencies in microseconds, for RecordLatency.
func NewHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, latencyMicrosMax, latencyDigits)
}

// RecordLatency adds count latencies of the same size; those beyond the scale count as its end.
func RecordLatency(h *hdrhistogram.Histogram, latency time.Duration, count int64) {
	_ = h.RecordValues(min(max(latency.Microseconds(), 0), latencyMicrosMax), count) // fails only out of scale
}

// Summarise returns what a histogram says, nil when it is empty.
func Summarise(h *hdrhistogram.Histogram) *Latency {
	if h == nil || h.TotalCount() == 0 {
		return nil
	}
	return &Latency{
		P50:   h.ValueAtQuantile(50),
		P99:   h.ValueAtQuantile(99),
		P999:  h.ValueAtQuantile(99.9),
		Max:   h.Max(),
		Count: h.TotalCount(),
	}
}

// setRates fills in what follows from totals and time.
func (r *Report) setRates(elapsed time.Duration) {
	r.Seconds = elapsed.Seconds()
	if r.Seconds > 0 {
		r.RecordsPerSecond = float64(r.Records) / r.Seconds
		r.MBPerSecond = float64(r.Bytes) / 1e6 / r.Seconds
		r.RequestsPerS = float64(r.Requests) / r.Seconds
	}
}

// failure is nil when no reply carried an error.
func (r *Report) failure() error {
	if len(r.Errors) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %v", ErrReplies, r.Errors)
}

// CurrentEnvironment reads what the system says of itself; what it does not say stays empty.
func CurrentEnvironment() Environment {
	e := Environment{Cores: runtime.NumCPU(), Go: runtime.Version()}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		e.Kernel = unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:])
	}
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
				e.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		modified := ""
		for _, setting := range info.Settings {
			switch {
			case setting.Key == "vcs.revision":
				e.Commit = setting.Value
			case setting.Key == "vcs.modified" && setting.Value == "true":
				modified = "+modified"
			}
		}
		if e.Commit != "" {
			e.Commit += modified
		}
	}
	return e
}
