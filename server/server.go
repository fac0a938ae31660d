package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ringlog/broker"
	"ringlog/buffer"
	"ringlog/engine"
	"ringlog/frontend/admin"
	"ringlog/frontend/kafka"
	"ringlog/raftctl"
)

// ErrStillStopping is returned by Shutdown, and by Run, when the broker did not come
// to rest in time: a disk does not answer. The process should end then. Nothing
// acknowledged is lost: the next start recovers it.
var ErrStillStopping = errors.New("server: the broker does not come to rest; what is acknowledged is safe, and the next start recovers it")

// settleTimeoutMin is the least time that a broker has to come to rest after its last
// request, however short a time requests are given: a flush takes as long as the
// disk needs, and what is left out costs a recovery.
const settleTimeoutMin = 10 * time.Second

// Server is a running broker. Its methods are safe for use by any goroutine.
type Server struct {
	config   *resolved
	identity identity
	registry *prometheus.Registry
	state    atomic.Int32 // a state
	started  atomic.Bool  // Start has succeeded: every part is there

	// The parts, in the order in which they were started.
	lock       *directoryLock
	pools      pools
	controller *raftctl.Controller
	engine     *engine.Engine
	broker     *broker.Broker
	follow     func() // ends the broker's subscription to metadata
	kafka      *kafka.Protocol
	listener   listener
	unlimit    func() // ends what keeps the listener's limits up to date
	admin      *admin.Server

	// settleTimeout bounds how long Shutdown goes on after its context has ended.
	settleTimeout time.Duration
	// step is the part that is being stopped, for people.
	step atomic.Pointer[string]

	background sync.WaitGroup
	stopping   chan struct{} // closed when Shutdown begins
	failed     chan error    // capacity 1: the first part that ended by itself
	shutdown   sync.Once
	result     error // of Shutdown
}

// state is where a Server is in its life.
type state int32

const (
	stateStarting state = iota
	stateReady
	stateStopping
	stateStopped
)

// pools are the parts of the memory budget.
type pools struct{ frames, tail, cold *buffer.Pool }

// Run starts a broker and runs it until ctx ends or a part of it that it cannot
// live without fails. It then stops in order: requests in flight have
// Config.ShutdownTimeout to be answered, and the disk has as long again, 10 seconds at
// least, to take what is not flushed. The error is ErrStillStopping if it does not.
func Run(ctx context.Context, config Config) error {
	config.EnsureDefaults()
	s, err := Start(ctx, config)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		config.Logger.Info("stopping", "timeout", config.ShutdownTimeout)
	case err = <-s.failed:
		config.Logger.Error("stopping: a part of the broker has failed", "error", err)
	}
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), config.ShutdownTimeout)
	defer cancel()
	began := time.Now()
	if err = errors.Join(err, s.Shutdown(stopCtx)); err == nil {
		config.Logger.Info("stopped", "took", time.Since(began))
	}
	return err
}

// Addr is where Kafka clients are served.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// AdminAddr is where metrics and health are served; nil when they are not.
func (s *Server) AdminAddr() net.Addr {
	if s.admin == nil {
		return nil
	}
	return s.admin.Addr()
}

// ClusterID is the id of the cluster that the directory belongs to.
func (s *Server) ClusterID() string { return s.identity.clusterID }

// Ready reports whether the broker serves: from the end of Start to the begin of Shutdown,
// as long as its parts work.
func (s *Server) Ready() bool { return s.health(context.Background()).Healthy }

// Failed receives the error of the first part that ended by itself and without
// which the broker cannot go on. The owner then calls Shutdown.
func (s *Server) Failed() <-chan error { return s.failed }

// Shutdown stops the broker: no new connections, what is in flight is answered
// until ctx ends, everything is flushed, files are closed and the directory
// is free. It may be called again; all calls return the same. When a part has not
// stopped some time after ctx, it returns ErrStillStopping and leaves that part
// where it is.
func (s *Server) Shutdown(ctx context.Context) error {
	s.shutdown.Do(func() {
		s.state.Store(int32(stateStopping))
		close(s.stopping)
		s.result = s.stopInTime(ctx)
		s.state.Store(int32(stateStopped))
	})
	return s.result
}

// stopInTime is stop with a bound: a disk that does not answer would hold it for ever.
func (s *Server) stopInTime(ctx context.Context) error {
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop(ctx) }()
	select {
	case err := <-stopped:
		return err
	case <-ctx.Done():
	}
	// From here on time passes in which the listener hangs up and the engine flushes;
	// half of it is usual, and then it is time to say what is being waited for.
	bound := time.NewTimer(s.settleTimeout)
	defer bound.Stop()
	notice := time.NewTimer(s.settleTimeout / 2)
	defer notice.Stop()
	for {
		select {
		case err := <-stopped:
			return err
		case <-notice.C:
			s.config.Logger.Warn("the broker is still stopping", "part", s.stoppingPart(), "logs", s.closingLogs(), "goes_on_for", s.settleTimeout/2)
		case <-bound.C:
			s.config.Logger.Error("the broker does not come to rest and is left where it is", "part", s.stoppingPart(), "logs", s.closingLogs())
			return fmt.Errorf("%w (%s)", ErrStillStopping, s.stoppingPart())
		}
	}
}

// stoppingPart names what is being stopped.
func (s *Server) stoppingPart() string {
	if part := s.step.Load(); part != nil {
		return *part
	}
	return "requests in flight"
}

// closingLogsMax is how many logs are named where people read.
const closingLogsMax = 20

// closingLogs names the logs that are not at rest.
func (s *Server) closingLogs() string {
	if s.engine == nil {
		return ""
	}
	labels := s.engine.Closing()
	if more := len(labels) - closingLogsMax; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(labels[:closingLogsMax], " "), more)
	}
	return strings.Join(labels, " ")
}

// stop gives back, last first, whatever was started. What waits for ctx and is
// cut off is no error worth more than a line: nothing acknowledged is lost by it.
func (s *Server) stop(ctx context.Context) error {
	var errs []error
	step := func(what string, f func() error) {
		s.step.Store(&what)
		if err := f(); err != nil {
			errs = append(errs, fmt.Errorf("server: stopping %s: %w", what, err))
		}
	}
	engineRuns := s.engine != nil && !ended(s.engine.Ended())
	if engineRuns {
		// Fetches that wait for records are answered now and do not hold up the others.
		if err := s.engine.Hasten(ctx); err != nil {
			s.config.Logger.Warn("waiting fetches are not answered", "reason", err)
		}
	}
	if s.broker != nil {
		step("the coordinators of groups", func() error { s.broker.StopGroups(); return nil })
	}
	if s.unlimit != nil {
		step("the limits of connections", func() error { s.unlimit(); return nil })
	}
	if s.listener != nil {
		if err := s.listener.Shutdown(ctx); err != nil {
			s.config.Logger.Warn("requests in flight were cut off", "reason", err)
		}
	}
	if s.follow != nil {
		step("the broker's view of metadata", func() error { s.follow(); return nil })
	}
	if s.broker != nil {
		step("the broker", func() error { s.broker.Close(); return nil })
	}
	if engineRuns {
		// Not under ctx: a flush that is left out here costs a recovery. Its bound
		// is that of stopInTime.
		step("the storage engine", func() error { return s.engine.Close(context.WithoutCancel(ctx)) })
	}
	if s.controller != nil {
		step("the metadata controller", s.controller.Close)
	}
	if s.admin != nil {
		step("the admin server", func() error { return s.admin.Shutdown(ctx) })
	}
	step("the tasks in the background", func() error { s.background.Wait(); return nil })
	if s.lock != nil {
		step("the lock of the data directory", s.lock.release)
	}
	return errors.Join(errs...)
}
