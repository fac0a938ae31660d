package commit

import (
	"time"

	"ringlog/engine"
	"ringlog/perf"
)

// Report is the result of one run. What is counted lies between the first
// answer after the warm-up and the first after the duration.
type Report struct {
	Kind       string    `json:"kind"` // "commit"
	Command    string    `json:"command"`
	Parameters Options   `json:"parameters"`
	Started    time.Time `json:"started"`
	Seconds    float64   `json:"seconds"`

	// BatchBytes is the size of an append. Up to AppendsInFlight of them were in
	// flight, in groups of GroupAppends.
	BatchBytes      int `json:"batch_bytes"`
	GroupAppends    int `json:"group_appends"`
	AppendsInFlight int `json:"appends_in_flight"`

	Appends          int64   `json:"appends"`
	Bytes            int64   `json:"bytes"` // of the batches
	AppendsPerSecond float64 `json:"appends_per_s"`
	MBPerSecond      float64 `json:"mb_per_s"` // 10^6 bytes
	// FirstThird and LastThird show whether the rate was steady.
	FirstThird float64 `json:"first_third_appends_per_s"`
	LastThird  float64 `json:"last_third_appends_per_s"`

	// Commits is how often something became safe together: the engine's flushes
	// of its journal and of segments, trims among them; Direct's flushes of a
	// file; and the rounds of the others. Absent where there is none.
	Commits          int64   `json:"commits,omitempty"`
	CommitsPerSecond float64 `json:"commits_per_s,omitempty"`
	AppendsPerCommit float64 `json:"appends_per_commit,omitempty"`
	BytesPerCommit   float64 `json:"bytes_per_commit,omitempty"`
	// Latency is from the submission of a group to its answer, once for each append.
	Latency *perf.Latency `json:"commit_latency_us,omitempty"`

	// DeviceBytes were written by the count of the system itself, ProcessWriteBytes by
	// the kernel's (write_bytes of /proc/self/io, file system included; absent
	// where it is not counted). The amplification is either divided by Bytes.
	DeviceBytes          int64   `json:"device_bytes"`
	Amplification        float64 `json:"write_amplification"`
	ProcessWriteBytes    int64   `json:"process_write_bytes,omitempty"`
	ProcessAmplification float64 `json:"process_write_amplification,omitempty"`

	// TotalAppends were answered, warm-up and the rest included.
	TotalAppends int64 `json:"total_appends"`
	// ResidentBytesMax is of the whole process, from its start on.
	ResidentBytesMax int64 `json:"resident_bytes_max"`
	// TailBytesUsed is what the engine's tails took at the end, cache included.
	TailBytesUsed int64 `json:"tail_bytes_used,omitempty"`

	// Engine is what the engine had counted since its start when counting ended.
	Engine *engine.Metrics `json:"engine_metrics,omitempty"`
	// EngineRun is what it did in the time that is counted.
	EngineRun *perf.EngineReport `json:"engine,omitempty"`

	CPU         perf.CPU         `json:"cpu"`
	Environment perf.Environment `json:"environment"`
	FileSystem  string           `json:"file_system,omitempty"`
	Notes       []string         `json:"notes,omitempty"`
}

// per is a rate, 0 over nothing.
func per(count int64, of float64) float64 {
	if of <= 0 {
		return 0
	}
	return float64(count) / of
}
