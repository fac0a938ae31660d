package perf

import (
	"errors"
	"fmt"
	"time"
)

// BesideOptions say what Beside does: a producer, and who else is there.
type BesideOptions struct {
	// Producer is the load. Its Duration is that of each phase; Stamp is set when anybody reads.
	// Its topic gets History, and is what is read.
	Producer ProduceOptions `json:"producer"`

	// Idle is a number of connections that each wait for records of a topic to which
	// nobody sends, on one fetch that the broker keeps for longer than the run.
	Idle int `json:"idle,omitempty"`
	// IdleTopic is created when it is missing, with IdlePartitions. Default "perf-idle", 16.
	IdleTopic      string `json:"idle_topic,omitempty"`
	IdlePartitions int    `json:"idle_partitions,omitempty"`
	// Tails is a number of consumers, each with one connection for each broker, that read
	// all that is sent as it comes.
	Tails int `json:"tails,omitempty"`
	// Scans is a number of consumers that read from the beginning to what was the end, again and again.
	Scans int `json:"scans,omitempty"`
	// Stuck is a number of connections that ask for StuckFetches replies of 4 MiB at most from the
	// beginning, and read none of them.
	Stuck        int `json:"stuck,omitempty"`
	StuckFetches int `json:"stuck_fetches,omitempty"` // default 64

	// HistoryBytes is what the topic has at least, in values, before anything is
	// measured. Default 4 GiB when there are Scans, 64 MiB when there are Stuck, else 0.
	HistoryBytes int64 `json:"history_bytes,omitempty"`
	// Rounds is how often the phases alternate. Default 1.
	Rounds int `json:"rounds"`
	// Settle is how long is waited before the server's memory is looked at. Default 1 s.
	Settle time.Duration `json:"settle_ns,omitempty"`

	// OnStep, when set, is told what begins and how long it takes, 0 when nobody knows. It must not wait.
	OnStep func(what string, duration time.Duration) `json:"-"`
}

// EnsureDefaults fills in what is zero.
func (o *BesideOptions) EnsureDefaults() {
	o.Producer.Stamp = o.Producer.Stamp || o.Tails > 0
	o.Producer.EnsureDefaults()
	if o.Idle > 0 {
		setDefault(&o.IdleTopic, "perf-idle")
		setDefault(&o.IdlePartitions, 16)
	}
	switch {
	case o.Scans > 0:
		setDefault(&o.HistoryBytes, 4<<30)
	case o.Stuck > 0:
		setDefault(&o.HistoryBytes, 64<<20)
	}
	if o.Stuck > 0 {
		setDefault(&o.StuckFetches, 64)
	}
	setDefault(&o.Rounds, 1)
	setDefault(&o.Settle, time.Second)
	if o.OnStep == nil {
		o.OnStep = func(string, time.Duration) {}
	}
}

// Validate reports everything that is wrong.
func (o *BesideOptions) Validate() error {
	faults := []error{o.Producer.Validate()}
	if min(o.Idle, o.Tails, o.Scans, o.Stuck) < 0 || o.Idle+o.Tails+o.Scans+o.Stuck == 0 {
		faults = append(faults, fmt.Errorf("perf: nobody is beside the producer: %d idle, %d tails, %d scans, %d stuck", o.Idle, o.Tails, o.Scans, o.Stuck))
	}
	if o.Producer.Duration <= 0 || o.Producer.Count != 0 {
		faults = append(faults, errors.New("perf: a producer beside others runs for a duration, not for a count"))
	}
	if o.Rounds < 1 || o.Settle < 0 || o.HistoryBytes < 0 || o.StuckFetches < 0 {
		faults = append(faults, fmt.Errorf("perf: %d rounds, settle %v, history of %d bytes, %d fetches", o.Rounds, o.Settle, o.HistoryBytes, o.StuckFetches))
	}
	return errors.Join(faults...)
}

// BesideReport is the result of Beside.
type BesideReport struct {
	// Kind is "beside", Parameters are the options with their defaults filled in.
	Kind        string        `json:"kind"`
	Parameters  BesideOptions `json:"parameters"`
	Started     time.Time     `json:"started"`
	Rounds      []BesideRound `json:"rounds"`
	Environment Environment   `json:"environment"`
	Notes       []string      `json:"notes,omitempty"`
}

// BesideRound is both phases of a round. Alone has the tails in it too when they are
// not all that is beside the producer: then they are who is disturbed.
type BesideRound struct {
	Alone  BesidePhase `json:"alone"`
	Beside BesidePhase `json:"beside"`
	Idle   *IdleReport `json:"idle,omitempty"`
	// StuckClosed is how many of the stuck connections the broker had closed at the end of the phase.
	StuckClosed int `json:"stuck_closed,omitempty"`
}

// BesidePhase is what one phase measured.
type BesidePhase struct {
	MBPerSecond float64          `json:"mb_per_s"`
	AckLatency  *Latency         `json:"ack_latency_us,omitempty"`
	Errors      map[string]int64 `json:"errors,omitempty"`
	CPU         CPU              `json:"cpu"`
	// TailMBPerSecond is what all tails together got, EndToEnd how long after it was due.
	TailMBPerSecond float64  `json:"tail_mb_per_s,omitempty"`
	EndToEnd        *Latency `json:"end_to_end_us,omitempty"`
	ScanMBPerSecond float64  `json:"scan_mb_per_s,omitempty"`
	// Memory of the server before the phase and the most in it, when its process is known.
	ResidentBytesBefore int64 `json:"server_resident_bytes_before,omitempty"`
	ResidentBytesMax    int64 `json:"server_resident_bytes_max,omitempty"`
}

// IdleReport is what the idle connections cost.
type IdleReport struct {
	Connections int     `json:"connections"`
	OpenSeconds float64 `json:"open_seconds"`
	// Memory of the server before the first and after the last was open, each after
	// Settle without load, and the difference for each.
	ResidentBytesBefore int64   `json:"server_resident_bytes_before,omitempty"`
	ResidentBytesAfter  int64   `json:"server_resident_bytes_after,omitempty"`
	BytesPerConnection  float64 `json:"bytes_per_connection,omitempty"`
	// CPU while nobody sends: the server's is what waiting costs.
	CPU CPU `json:"cpu"`
	// Closed are those that the broker had closed at the end, Answered those whose fetch came back.
	Closed   int `json:"closed,omitempty"`
	Answered int `json:"answered,omitempty"`
}
