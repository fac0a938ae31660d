package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"ringlog/broker"
	"ringlog/buffer"
	"ringlog/engine"
	"ringlog/frontend/admin"
	"ringlog/frontend/kafka"
	"ringlog/net/stream"
	"ringlog/raftctl"
)

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
	listener   *stream.Listener
	admin      *admin.Server

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
// live without fails. It then stops in order, for at most Config.ShutdownTimeout.
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
	return errors.Join(err, s.Shutdown(stopCtx))
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
// is free. It may be called again; all calls return the same.
func (s *Server) Shutdown(ctx context.Context) error {
	s.shutdown.Do(func() {
		s.state.Store(int32(stateStopping))
		close(s.stopping)
		s.result = s.stop(ctx)
		s.state.Store(int32(stateStopped))
	})
	return s.result
}

// stop gives back, last first, whatever was started. What waits for ctx and is
// cut off is no error worth more than a line: nothing acknowledged is lost by it.
func (s *Server) stop(ctx context.Context) error {
	var errs []error
	step := func(what string, f func() error) {
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
	if s.listener != nil {
		if err := s.listener.Shutdown(ctx); err != nil {
			s.config.Logger.Warn("requests in flight were cut off", "reason", err)
		}
	}
	if s.follow != nil {
		s.follow()
	}
	if s.broker != nil {
		s.broker.Close()
	}
	if engineRuns {
		// Not under ctx: a flush that is left out here costs a recovery, and the time it
		// takes is the disk's.
		step("the storage engine", func() error { return s.engine.Close(context.WithoutCancel(ctx)) })
	}
	if s.controller != nil {
		step("the metadata controller", s.controller.Close)
	}
	if s.admin != nil {
		step("the admin server", func() error { return s.admin.Shutdown(ctx) })
	}
	s.background.Wait()
	if s.lock != nil {
		step("the lock of the data directory", s.lock.release)
	}
	return errors.Join(errs...)
}
