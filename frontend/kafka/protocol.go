package kafka

import (
	"context"
	"log/slog"
	"sync/atomic"

	"ringlog/broker"
	"ringlog/frontend"
	"ringlog/internal/ratelog"
)

// frameBytesMaxDefault is socket.request.max.bytes of Kafka.
const frameBytesMaxDefault = 100 << 20

// Options configures a Protocol. Zero values are replaced by the defaults.
type Options struct {
	// Broker does what requests ask for. Required.
	Broker *broker.Broker
	// FrameBytesMax is socket.request.max.bytes: a larger frame closes its
	// connection before memory is taken for it. The default is 100 MiB.
	FrameBytesMax int
	// AutoCreateTopics is auto.create.topics.enable: Metadata may create topics.
	AutoCreateTopics bool
	// TopicDeletionDisabled is delete.topic.enable=false.
	TopicDeletionDisabled bool
	// FetchSessionsMax is max.incremental.fetch.session.cache.slots; FetchSessionsOff makes
	// none. The default is 1,000.
	FetchSessionsMax int
	// RequestMemoryBytes bounds what the large requests of all connections hold on the Go
	// heap together: decoded bodies, and answers until they are sent. The default is 64 MiB.
	RequestMemoryBytes int64
	// Logger gets rate-limited warnings about refused requests and caught
	// panics. The default discards them.
	Logger *slog.Logger
}

// FetchSessionsOff in Options.FetchSessionsMax has every fetch name all its partitions.
const FetchSessionsOff = -1

// Protocol is the Kafka protocol of one listener: frontend.Protocol. Safe for
// concurrent use.
type Protocol struct {
	broker           *broker.Broker
	frameBytesMax    int
	autoCreateTopics bool
	deleteTopics     bool
	log              *ratelog.Logger
	clockLogger      *ratelog.Logger
	metrics          Metrics
	sessions         fetchSessions
	memory           memory
	copies           atomic.Int64 // bytes of requests that wait as copies
}

// New returns the protocol.
func New(o Options) *Protocol {
	if o.Broker == nil {
		panic("kafka: Options.Broker is nil")
	}
	if o.FrameBytesMax == 0 {
		o.FrameBytesMax = frameBytesMaxDefault
	}
	if o.FetchSessionsMax == 0 {
		o.FetchSessionsMax = fetchSessionsDefault
	}
	if o.RequestMemoryBytes == 0 {
		o.RequestMemoryBytes = requestMemoryDefault
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Protocol{
		broker:           o.Broker,
		frameBytesMax:    o.FrameBytesMax,
		autoCreateTopics: o.AutoCreateTopics,
		deleteTopics:     !o.TopicDeletionDisabled,
		log:              ratelog.New(o.Logger, ratelog.Interval),
		clockLogger:      ratelog.New(o.Logger, clockLogInterval),
		sessions:         newFetchSessions(max(o.FetchSessionsMax, 0)),
		memory:           memory{limit: o.RequestMemoryBytes},
	}
}

// Name implements frontend.Protocol.
func (p *Protocol) Name() string { return "kafka" }

// PrefixBytes implements frontend.Protocol.
func (p *Protocol) PrefixBytes() int { return lengthBytes }

// Metrics returns the counters of all sessions.
func (p *Protocol) Metrics() *Metrics { return &p.metrics }

// NewSession implements frontend.Protocol.
func (p *Protocol) NewSession(conn frontend.Conn) frontend.Session {
	s := &session{protocol: p, conn: conn}
	s.waiting.copies = &p.copies
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	p.metrics.Sessions.Add(1)
	return s
}
