package raftctl

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"go.etcd.io/raft/v3"

	"ringlog/meta"
)

// Controller is this broker's part of the quorum and its copy of the metadata.
// All methods are safe for use by any goroutine.
type Controller struct {
	options Options
	log     *slog.Logger

	// image is the newest image; each value is immutable.
	image atomic.Pointer[meta.Image]
	// status is what Status returns.
	status atomic.Pointer[Status]

	proposals chan *proposal
	slots     chan struct{} // one per command that is proposed and not yet answered
	inputs    chan func(*raft.RawNode)
	closing   chan struct{} // closed by Close
	closeOnce sync.Once
	stopped   chan struct{} // closed when the loop has ended and err is set
	err       error         // why it ended; nil after Close
	closeErr  error
	ready     chan struct{} // closed when the metadata first is as new as the quorum's

	subscribers struct {
		sync.Mutex
		all map[*subscriber]struct{}
	}

	loop loop // the loop goroutine's own
}

// Status is what health checks, metrics and tools show of a Controller.
type Status struct {
	LeaderID      int32  // broker id, -1 when there is none
	Term          uint64 // raft's
	Committed     uint64 // index
	Applied       uint64 // index of the present image
	FirstIndex    uint64 // of the log kept
	SnapshotIndex uint64
	LogBytes      int64
	SnapshotBytes int64
	Voters        []int32
}

// Open opens, or with Options.Create makes, the metadata in dir and starts the
// controller. It does not wait for a leader: Ready does.
func Open(ctx context.Context, dir string, options Options) (*Controller, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("raftctl: open: %w", err)
	}
	who := identity{nodeID: options.NodeID, clusterID: options.ClusterID}
	if options.Create {
		if err := create(dir, who, options.Voters); err != nil {
			return nil, err
		}
	}
	s, err := openStore(dir, who)
	if err != nil {
		return nil, err
	}
	c, err := newController(options, s)
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	go c.run()
	return c, nil
}

// create makes the file whose first snapshot is the formatted cluster. All
// voters that found a cluster make the same one.
func create(dir string, who identity, voters []int32) error {
	image, _, _, err := meta.Apply(meta.NewImage(), 1, meta.FormatCluster{ClusterID: who.clusterID})
	if err != nil {
		return fmt.Errorf("raftctl: %w", err)
	}
	ids := make([]uint64, len(voters))
	for i, voter := range voters {
		ids[i] = raftID(voter)
	}
	return createStore(dir, who, ids, meta.AppendImage(nil, image))
}

func newController(options Options, s *store) (*Controller, error) {
	first, err := s.readSnapshot()
	if err != nil {
		return nil, err
	}
	image, err := meta.DecodeImage(first.image)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.path, asCorrupt(err))
	}
	if image.Index != first.at.index || image.ClusterID != options.ClusterID {
		return nil, s.corrupt("its snapshot is another image's")
	}
	c := &Controller{
		options: options, log: options.Logger,
		proposals: make(chan *proposal), slots: make(chan struct{}, proposalsMax), inputs: make(chan func(*raft.RawNode)),
		closing: make(chan struct{}), stopped: make(chan struct{}), ready: make(chan struct{}),
	}
	c.subscribers.all = make(map[*subscriber]struct{})
	c.image.Store(image)
	c.loop.store, c.loop.waiting = s, make(map[uint64]*proposal)
	session := make([]byte, 8)
	if _, err := rand.Read(session); err != nil {
		return nil, fmt.Errorf("raftctl: drawing a session: %w", err)
	}
	c.loop.session = binary.LittleEndian.Uint64(session)
	err = guard(func() (err error) {
		c.loop.node, err = raft.NewRawNode(&raft.Config{
			ID: raftID(options.NodeID), Storage: s, Applied: image.Index,
			ElectionTick: electionTicks, HeartbeatTick: heartbeatTicks,
			MaxSizePerMsg: 1 << 20, MaxCommittedSizePerReady: 16 << 20, MaxInflightMsgs: 64,
			MaxUncommittedEntriesSize: 64 << 20,
			PreVote:                   true, CheckQuorum: true,
			Logger: raftLogger{options.Logger},
		})
		return err
	}, s.corruptPanic)
	if err != nil {
		return nil, err
	}
	c.publishStatus()
	return c, nil
}

// Image returns the newest image. It does not change; a later call may return
// a later one.
func (c *Controller) Image() *meta.Image { return c.image.Load() }

// Status returns how the quorum looks from here.
func (c *Controller) Status() Status { return *c.status.Load() }

// Ready waits until the quorum has a leader and this broker's image holds all
// that was committed before.
func (c *Controller) Ready(ctx context.Context) error {
	select {
	case <-c.ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrNoLeader, ctx.Err())
	case <-c.stopped:
		return c.endError()
	}
}

// Failed is closed when the controller has ended, by Close or by a failure.
// The image stays as it was.
func (c *Controller) Failed() <-chan struct{} { return c.stopped }

// Err returns why the controller ended: nil while it runs and after Close,
// else an error that is ErrFailed.
func (c *Controller) Err() error {
	select {
	case <-c.stopped:
		return c.err
	default:
		return nil
	}
}

// Propose has command ordered by the quorum, applied, and part of Image, and
// returns what meta.Apply answered. A command is not proposed twice: after
// ErrUnknownOutcome the caller looks at the image, or asks again if that is harmless.
func (c *Controller) Propose(ctx context.Context, command meta.Command) (meta.Result, error) {
	data := meta.AppendCommand(make([]byte, envelopeBytes, 256), command)
	if len(data) > CommandBytesMax {
		return nil, fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, len(data), CommandBytesMax)
	}
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return nil, fmt.Errorf("raftctl: propose: %w", ctx.Err())
	case <-c.stopped:
		return nil, c.endError()
	}
	p := &proposal{ctx: ctx, data: data, outcome: make(chan outcome, 1)}
	select {
	case c.proposals <- p:
	case <-ctx.Done():
		return nil, fmt.Errorf("raftctl: propose: %w", ctx.Err())
	case <-c.stopped:
		return nil, c.endError()
	}
	select {
	case o := <-p.outcome:
		return o.result, o.err
	case <-ctx.Done():
	case <-c.stopped:
	}
	select { // it may have been answered at the same time
	case o := <-p.outcome:
		return o.result, o.err
	default:
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnknownOutcome, ctx.Err())
	}
	return nil, fmt.Errorf("%w: %w", ErrUnknownOutcome, c.endError())
}

// Close ends the controller and its subscribers' calls, and closes the file.
// Commands that are not answered end with ErrUnknownOutcome.
func (c *Controller) Close() error {
	c.closeOnce.Do(func() {
		close(c.closing)
		<-c.stopped
		c.cancelSubscribers()
		c.closeErr = c.loop.store.close()
	})
	return c.closeErr
}

// endError is what callers get after the loop has ended.
func (c *Controller) endError() error {
	if c.err != nil {
		return c.err
	}
	return ErrClosed
}

// asCorrupt gives meta's errors the name they have here.
func asCorrupt(err error) error {
	if errors.Is(err, meta.ErrCorrupt) {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return err
}
