package perf

import (
	"errors"
	"fmt"
	"math"
	"time"

	"ringlog/record"
)

var (
	// ErrReplies is returned, beside the report, when replies carried errors.
	ErrReplies = errors.New("perf: replies carried errors")
	// ErrDurability is returned when the topic exists with another durability
	// than the run is to measure.
	ErrDurability = errors.New("perf: topic has another durability")
	// ErrVersion is returned when the broker speaks no version of a request
	// that the load generator speaks too.
	ErrVersion = errors.New("perf: no common version")
	// ErrProtocol is returned when a reply is not what the protocol allows.
	ErrProtocol = errors.New("perf: unexpected reply")
)

// Durability is what an acknowledgement stands for.
type Durability string

const (
	// Durable: flushed to the device before the ack (flush.messages=1).
	Durable Durability = "durable"
	// Written: the device took it (flush.messages at its maximum).
	Written Durability = "written"
)

// flushMessages is the topic setting of a durability.
func (d Durability) flushMessages() string {
	if d == Written {
		return fmt.Sprint(int64(math.MaxInt64))
	}
	return "1"
}

// Load is what Produce and Bare have in common: the shape of the traffic.
type Load struct {
	// RecordBytes is the size of a record's value. Default 1024.
	RecordBytes int `json:"record_bytes"`
	// BatchBytes is the most that a record batch takes before compression; a
	// batch holds at least one record. Default 64 KiB.
	BatchBytes int `json:"batch_bytes"`
	// Connections in total, spread over the brokers. Default 4.
	Connections int `json:"connections"`
	// Partitions of the topic when it has to be created. Default 1.
	Partitions int `json:"partitions"`
	// Depth is the number of requests in flight per connection. Default 8.
	Depth int `json:"depth"`
	// Acks is -1 (all), 0 or 1. There is no default but that of NewLoad, -1.
	Acks int16 `json:"acks"`
	// Durability of the topic. Default Durable.
	Durability Durability `json:"durability"`
	// Codec is none, gzip, snappy, lz4 or zstd. Default none.
	Codec string `json:"codec"`
	// Rate is records per second, all connections together; 0 is a closed loop
	// at the maximum.
	Rate float64 `json:"rate,omitempty"`
	// Stamp puts into each batch when it was due, for EndToEnd of Consume. It
	// needs records of 16 bytes and no codec.
	Stamp bool `json:"stamp,omitempty"`
	// Duration and Count (records) end the run, whichever is first; Duration
	// is 10 s by default when there is no Count.
	Duration time.Duration `json:"duration_ns,omitempty"`
	Count    int64         `json:"count,omitempty"`
	// Interval cuts the run into windows, each of which is given to OnWindow, one
	// at a time and at last what is left; 0 is none. OnWindow must not wait: the next one comes late.
	Interval time.Duration `json:"interval_ns,omitempty"`
	OnWindow func(Window)  `json:"-"`
}

// NewLoad returns the defaults. (The zero Load asks for acks=0, which is
// seldom what is meant.)
func NewLoad() Load {
	l := Load{Acks: -1}
	l.EnsureDefaults()
	l.Duration = 10 * time.Second
	return l
}

// EnsureDefaults fills in what is zero, but for Acks, where 0 has a meaning.
func (l *Load) EnsureDefaults() {
	setDefault(&l.RecordBytes, 1024)
	setDefault(&l.BatchBytes, 64<<10)
	setDefault(&l.Connections, 4)
	setDefault(&l.Partitions, 1)
	setDefault(&l.Depth, 8)
	setDefault(&l.Durability, Durable)
	setDefault(&l.Codec, "none")
	if l.Count == 0 {
		setDefault(&l.Duration, 10*time.Second)
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate reports everything that is wrong.
func (l *Load) Validate() error {
	var faults []error
	require := func(ok bool, format string, arguments ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("perf: "+format, arguments...))
		}
	}
	require(l.RecordBytes > 0 && l.RecordBytes <= 64<<20, "record bytes %d are not 1 to 64 MiB", l.RecordBytes)
	require(l.BatchBytes > 0 && l.BatchBytes <= 64<<20, "batch bytes %d are not 1 to 64 MiB", l.BatchBytes)
	require(l.Connections > 0, "%d connections", l.Connections)
	require(l.Partitions > 0, "%d partitions", l.Partitions)
	require(l.Depth > 0 && l.Depth <= 1<<20, "depth %d is not 1 to 1048576", l.Depth)
	require(l.Acks >= -1 && l.Acks <= 1, "acks %d is not -1, 0 or 1", l.Acks)
	require(l.Durability == Durable || l.Durability == Written, "durability %q is neither %q nor %q", l.Durability, Durable, Written)
	_, known := record.ParseCodec(l.Codec)
	require(known, "codec %q is unknown", l.Codec)
	require(l.Rate >= 0 && !math.IsInf(l.Rate, 0), "rate %v", l.Rate)
	require(l.Duration >= 0 && l.Count >= 0, "duration %v, count %d", l.Duration, l.Count)
	require(!l.Stamp || l.RecordBytes >= stampBytes && l.Codec == "none", "stamps need records of %d bytes and more, and no codec", stampBytes)
	require(l.Interval == 0 || l.Interval >= time.Millisecond, "interval %v is shorter than 1 ms", l.Interval)
	return errors.Join(faults...)
}

// ProduceOptions say what Produce does.
type ProduceOptions struct {
	Load
	// Brokers are host:port of one or more brokers to ask for the topic's
	// leaders. Default 127.0.0.1:9092.
	Brokers []string `json:"brokers"`
	// Topic is created when it is missing. Default "perf-<durability>-<partitions>".
	Topic string `json:"topic"`
	// ReplicationFactor of a topic to be created; default -1, the broker's own.
	ReplicationFactor int16 `json:"replication_factor"`
	// ServerPID names a local broker's process, for its CPU; 0 when unknown.
	ServerPID int `json:"-"`
	// MetricsURL is where the broker serves its metrics, for what its storage engine did during the run;
	// "off" for nothing. The default is http://127.0.0.1:9644/metrics if the only broker is
	// at port 9092 of this machine and somebody answers there.
	MetricsURL string `json:"-"`
}

// EnsureDefaults fills in what is zero.
func (o *ProduceOptions) EnsureDefaults() {
	o.Load.EnsureDefaults()
	if len(o.Brokers) == 0 {
		o.Brokers = []string{"127.0.0.1:9092"}
	}
	setDefault(&o.Topic, fmt.Sprintf("perf-%s-%d", o.Durability, o.Partitions))
	setDefault(&o.ReplicationFactor, -1)
}

// Offsets that stand for the ends of a partition, as ListOffsets has them.
const (
	FromEnd      = -1
	FromEarliest = -2
)

// ConsumeOptions say what Consume does.
type ConsumeOptions struct {
	Brokers []string `json:"brokers"`
	Topic   string   `json:"topic"`
	// Connections in total, at most one per partition. Default 4.
	Connections int `json:"connections"`
	// Depth is the number of fetches in flight per connection, each for
	// partitions of its own. Default 1.
	Depth int `json:"depth"`
	// FetchBytesMax bounds one reply. Default 4 MiB; the bound per partition is the same.
	FetchBytesMax int `json:"fetch_bytes_max"`
	// FromOffset is where each partition starts; FromEarliest and FromEnd stand for its ends. Default 0.
	FromOffset int64 `json:"from_offset"`
	// Duration and Count (records) end the run; without either it ends at what was
	// the end of each partition when the run began.
	Duration time.Duration `json:"duration_ns,omitempty"`
	Count    int64         `json:"count,omitempty"`
	// Repeat starts a partition over, from where it started, at what was its end when the run began.
	Repeat bool `json:"repeat,omitempty"`
	// EndToEnd measures, per batch, the time since it was due, if it was sent with Load.Stamp, else
	// since the time of its newest record, in whole milliseconds: only for those stamped when sent or appended.
	EndToEnd  bool `json:"end_to_end,omitempty"`
	ServerPID int  `json:"-"`
}

// EnsureDefaults fills in what is zero.
func (o *ConsumeOptions) EnsureDefaults() {
	if len(o.Brokers) == 0 {
		o.Brokers = []string{"127.0.0.1:9092"}
	}
	setDefault(&o.Topic, "perf-durable-1")
	setDefault(&o.Connections, 4)
	setDefault(&o.Depth, 1)
	setDefault(&o.FetchBytesMax, 4<<20)
}

// Validate reports everything that is wrong.
func (o *ConsumeOptions) Validate() error {
	var faults []error
	if o.Connections < 1 || o.Depth < 1 {
		faults = append(faults, fmt.Errorf("perf: %d connections of depth %d", o.Connections, o.Depth))
	}
	if o.FetchBytesMax < 1 || o.FetchBytesMax > math.MaxInt32 {
		faults = append(faults, fmt.Errorf("perf: fetch bytes %d are not 1 to %d", o.FetchBytesMax, math.MaxInt32))
	}
	if o.Duration < 0 || o.Count < 0 || o.FromOffset < FromEarliest {
		faults = append(faults, fmt.Errorf("perf: duration %v, count %d, from offset %d", o.Duration, o.Count, o.FromOffset))
	}
	if o.Repeat && (o.FromOffset == FromEnd || o.Duration == 0 && o.Count == 0) {
		faults = append(faults, errors.New("perf: what is repeated needs an end, by duration or count, and a beginning that is not the end"))
	}
	return errors.Join(faults...)
}
