package broker

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"ringlog/engine"
	"ringlog/internal/ratelog"
	"ringlog/meta"
)

// Controller is the control plane as the broker needs it: raftctl implements
// it, server joins the two.
type Controller interface {
	// Propose has command ordered by the quorum and applied, and returns what
	// meta.Apply answered. The change reaches Broker.Apply as well, in order
	// with all others, before or after Propose returns.
	Propose(ctx context.Context, command meta.Command) (meta.Result, error)
}

// NewReplica makes the state machine of one partition's log.
type NewReplica func(label string) engine.Replica

// Options configures a Broker. Fields without a default are required.
type Options struct {
	NodeID     int32
	Engine     engine.API
	Controller Controller
	NewReplica NewReplica
	// Defaults are the broker's own configurations, which hold for topics that set none
	// themselves as far as none are set dynamically.
	Defaults *meta.Defaults
	// NumPartitions is num.partitions, for topics created without a number. The default is 1.
	NumPartitions int32
	// ReplicationFactor is default.replication.factor. The default is 1.
	ReplicationFactor int16
	// LogDir is the data directory, for people: an absolute path.
	LogDir string
	// DiskSpace returns the bytes of its file system, all and usable; nil does not know.
	DiskSpace func() (total, usable int64, err error)
	// Quorum describes the metadata quorum; nil when there is none.
	Quorum func() QuorumStatus
	// TopicReadyTimeout bounds how long a topic create waits for its logs after the
	// quorum took it. The default is 30 s.
	TopicReadyTimeout time.Duration
	// OfflineRetryInterval is the time between two attempts to open a log that
	// failed. The default is 10 s.
	OfflineRetryInterval time.Duration
	// NowMillis is wall-clock time in Unix milliseconds; nil is the system's.
	NowMillis func() int64
	// Logger gets what operators should know; the default discards it.
	Logger *slog.Logger
}

// Broker is this node's services. See the package comment for who may call what.
type Broker struct {
	options Options
	engine  engine.API
	log     *slog.Logger
	// limitedLogger is for lines that clients can provoke.
	limitedLogger *ratelog.Logger
	// fetchBytesMax is fetch.max.bytes, above which no client can ask.
	fetchBytesMax int

	// view is what requests see. Owner of the writes: the reconciler.
	view atomic.Pointer[view]

	reconciler    reconciler
	recompressors recompressors
	producers     producerIDs
	checkers      checkers
	creating      autoCreations
	groups        groups

	closing context.Context
	close   context.CancelCauseFunc
}

// New returns a broker that serves nothing yet: Start carries out the first
// image.
func New(o Options) *Broker {
	if o.Engine == nil || o.Controller == nil || o.NewReplica == nil || o.Defaults == nil {
		panic("broker: Options lack Engine, Controller, NewReplica or Defaults")
	}
	if o.NumPartitions == 0 {
		o.NumPartitions = 1
	}
	if o.ReplicationFactor == 0 {
		o.ReplicationFactor = 1
	}
	if o.TopicReadyTimeout == 0 {
		o.TopicReadyTimeout = 30 * time.Second
	}
	if o.OfflineRetryInterval == 0 {
		o.OfflineRetryInterval = 10 * time.Second
	}
	if o.NowMillis == nil {
		o.NowMillis = func() int64 { return time.Now().UnixMilli() }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Broker{options: o, engine: o.Engine, log: o.Logger, limitedLogger: ratelog.New(o.Logger, ratelog.Interval)}
	b.closing, b.close = context.WithCancelCause(context.Background())
	b.view.Store(&view{image: meta.NewImage(), defaults: o.Defaults, replaced: make(chan struct{})})
	b.fetchBytesMax = fetchBytesMax(o.Defaults)
	b.producers.turn = make(chan struct{}, 1)
	b.recompressors.init()
	b.reconciler.init(b)
	b.checkers.init(b)
	b.groups.init(b)
	return b
}

// NodeID is this broker's id.
func (b *Broker) NodeID() int32 { return b.options.NodeID }

// Image returns the cluster as far as this broker has carried it out.
func (b *Broker) Image() *meta.Image { return b.view.Load().image }

// Now is the broker's wall clock in Unix milliseconds.
func (b *Broker) Now() int64 { return b.options.NowMillis() }

// Close ends everybody who waits in the broker, and waits for the produces that are still
// being checked. The subscription that calls Apply has to be cancelled before, and no
// produce started after; engine and controller stay with their owner.
func (b *Broker) Close() {
	b.StopGroups()
	b.close(ErrClosed)
	b.reconciler.retry.Wait()
	b.checkers.wait()
}

// withClosing returns a context that ends with ctx or with the broker.
func (b *Broker) withClosing(ctx context.Context) (context.Context, context.CancelFunc) {
	joined, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(b.closing, func() { cancel(ErrClosed) })
	return joined, func() { stop(); cancel(nil) }
}
