package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ringlog/broker"
	"ringlog/buffer"
	"ringlog/engine"
	"ringlog/engine/disk"
	"ringlog/engine/disk/backend"
	"ringlog/frontend/admin"
	"ringlog/frontend/kafka"
	"ringlog/meta"
	"ringlog/net/stream"
	"ringlog/raftctl"
	"ringlog/replica"
)

// quorumTimeout bounds how long Start waits for the quorum: a quorum of one has a
// leader at once.
const quorumTimeout = 30 * time.Second

// Start starts a broker and returns when it serves. An error leaves nothing
// running. ctx bounds the start alone.
func Start(ctx context.Context, config Config) (*Server, error) {
	config.EnsureDefaults()
	resolved, err := config.resolve()
	if err != nil {
		return nil, fmt.Errorf("server: configuration: %w", err)
	}
	s := &Server{
		config: resolved, registry: prometheus.NewRegistry(), stopping: make(chan struct{}), failed: make(chan error, 1),
		settleTimeout: max(resolved.ShutdownTimeout, settleTimeoutMin),
	}
	for _, step := range []func(context.Context) error{
		s.openDirectory, s.probePort, s.openAdmin, s.openEngine, s.openController, s.openBroker, s.openListener,
	} {
		if err := step(ctx); err != nil {
			stopCtx, cancel := context.WithTimeout(ctx, resolved.ShutdownTimeout)
			defer cancel()
			return nil, errors.Join(err, s.Shutdown(stopCtx))
		}
	}
	s.background.Go(s.trim)
	s.background.Go(func() { s.pools.tail.KeepWarm(s.stopping, tailWarmBytes) })
	s.background.Go(s.watch)
	s.started.Store(true)
	s.state.Store(int32(stateReady))
	adminAddr := "off"
	if addr := s.AdminAddr(); addr != nil {
		adminAddr = addr.String()
	}
	resolved.Logger.Info("ready", "kafka", s.Addr().String(), "advertised", s.advertised().String(), "admin", adminAddr, "cluster", s.identity.clusterID,
		"node", resolved.nodeID, "topics", s.controller.Image().TopicCount(), "partitions", s.controller.Image().PartitionCount())
	return s, nil
}

// openDirectory makes the directory ours and finds out whose data it holds.
func (s *Server) openDirectory(context.Context) error {
	dir := s.config.DataDir
	if err := makeDirectory(dir); err != nil {
		return err
	}
	var err error
	if s.lock, err = lockDirectory(dir); err != nil {
		return err
	}
	if s.identity, err = openIdentity(dir, s.config.nodeID, randomness); err != nil {
		return err
	}
	return makeDirectory(filepath.Join(dir, logsName))
}

// openAdmin comes early: whoever watches sees a start that takes long.
func (s *Server) openAdmin(ctx context.Context) error {
	s.registry.MustRegister(&collector{server: s})
	registerProcess(s.registry)
	if s.config.AdminAddr == AdminOff {
		return nil
	}
	at, err := parseAddress(s.config.AdminAddr)
	if err != nil {
		return err
	}
	s.admin, err = admin.Listen(ctx, admin.Options{
		Address:     at.String(),
		AllowRemote: s.config.AdminAllowRemote,
		Gatherer:    s.registry,
		Health:      s.health,
		Profiling:   s.config.Profiling,
		Logger:      s.config.Logger,
	})
	return err
}

// openEngine makes the memory and opens the storage engine. It says once which disk
// it stands on and why.
func (s *Server) openEngine(context.Context) error {
	log := s.config.Logger
	s.pools = pools{
		frames: buffer.NewPool("frames", s.config.budget.FrameBytes),
		tail:   buffer.NewPool("tail", s.config.budget.TailBytes),
		cold:   buffer.NewPool("cold", s.config.budget.ColdBytes),
	}
	s.raiseProcs()
	s.noteJournal()
	root := filepath.Join(s.config.DataDir, logsName)
	opened, err := engine.New(engine.Options{
		OpenDisk:          func() (disk.Disk, error) { return backend.Open(root, s.config.IO, backend.Options{}) },
		Tail:              s.pools.tail,
		Cold:              s.pools.cold,
		Shards:            s.config.Shards,
		FilesOpenMax:      s.segmentFiles(),
		JournalBytes:      max(s.config.JournalBytes, 0), // JournalOff is none
		FreeBytesMin:      freeBytesMin(s.config.DiskFreeBytesMin),
		Directory:         root,
		RetentionInterval: s.config.millis("log.retention.check.interval.ms"),
		Logger:            log,

		ScrubBytesPerSecond: max(s.config.ScrubBytesPerSecond, 0), // ScrubOff is never
		ScrubInterval:       s.config.ScrubInterval,

		CleanInterval:       s.config.millis("log.cleaner.backoff.ms"),
		CleanKeyBytes:       s.config.integer("log.cleaner.dedupe.buffer.size"),
		CleanBytesPerSecond: s.config.bytesPerSecond("log.cleaner.io.max.bytes.per.second"),
	})
	if errors.Is(err, engine.ErrNoJournalSpace) {
		return fmt.Errorf("%w (make room in %s, or set %s to less)", err, root, journalSetting)
	}
	if err != nil {
		return err
	}
	s.engine = opened
	info := opened.Info()
	log.Info("disk", "io", info.Name, "direct", info.Direct, "reason", cmp.Or(info.Reason, "the setting io asks for it"), "directory", root, "shards", s.config.Shards,
		"frames", s.pools.frames.LimitBytes(), "tail", s.pools.tail.LimitBytes(), "cold", s.pools.cold.LimitBytes())
	return nil
}

// freeBytesMin is Config.DiskFreeBytesMin as the engine takes it.
func freeBytesMin(setting int64) int64 {
	if setting == DiskFreeOff {
		return 0
	}
	return setting
}

// noteJournal says what commits go through, and warns where the memory does not
// suit it. That is no fault: appends then wait for write-back earlier.
func (s *Server) noteJournal() {
	c, log := s.config, s.config.Logger
	if c.JournalBytes == JournalOff {
		log.Info("there is no commit journal: every commit is a flush of the segments", "setting", journalSetting)
		return
	}
	log.Info("commit journal", "bytes", c.JournalBytes, "shards", c.Shards, "setting", journalSetting)
	if !c.budget.journalsFit(c.JournalBytes, c.Shards) {
		log.Warn("the memory for tails is less than twice the commit journals: appends will wait for write-back before a journal is full",
			"journals", c.JournalBytes*int64(c.Shards), "tail", c.budget.TailBytes, "setting", journalSetting+" or memory")
	}
}

// raiseProcs lets Go run as many threads at once as shards and event loops have, and two
// more: a thread that comes back from the disk or the network would otherwise wait for a time
// slice of others, milliseconds each.
func (s *Server) raiseProcs() {
	want, have := s.config.busyThreads()+2, runtime.GOMAXPROCS(0)
	if have >= want {
		return
	}
	if text := os.Getenv("GOMAXPROCS"); text != "" {
		s.config.Logger.Warn("GOMAXPROCS is low: appends will wait for other work", "gomaxprocs", text, "recommended", want)
		return
	}
	runtime.GOMAXPROCS(want)
}

// openController joins the quorum, which is this broker alone.
func (s *Server) openController(ctx context.Context) error {
	dir := s.config.DataDir
	options := raftctl.Options{NodeID: s.config.nodeID, ClusterID: s.identity.clusterID, Logger: s.config.Logger}
	opened, err := raftctl.Open(ctx, dir, options)
	if errors.Is(err, raftctl.ErrMissing) && !s.identity.formatted {
		options.Create = true
		opened, err = raftctl.Open(ctx, dir, options)
	}
	if err != nil {
		return err
	}
	s.controller = opened
	if err := s.identity.finish(dir); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, quorumTimeout)
	defer cancel()
	return s.controller.Ready(ctx)
}

// openBroker opens the logs, has this start granted a leader epoch above all that is in
// them (architecture rule 11), and carries the metadata out.
func (s *Server) openBroker(ctx context.Context) error {
	producers := replica.Options{ProducerExpiration: s.config.millis("producer.id.expiration.ms")}
	logDir, err := filepath.Abs(filepath.Join(s.config.DataDir, logsName))
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	s.broker = broker.New(broker.Options{
		NodeID:            s.config.nodeID,
		Engine:            s.engine,
		Controller:        s.controller,
		NewReplica:        func(string) engine.Replica { return replica.New(producers) },
		Defaults:          s.config.defaults,
		NumPartitions:     int32(s.config.integer("num.partitions")),
		ReplicationFactor: int16(s.config.integer("default.replication.factor")),
		LogDir:            logDir,
		DiskSpace:         func() (total, usable int64, err error) { return diskSpace(logDir) },
		Quorum:            s.quorumStatus,
		Logger:            s.config.Logger,
	})
	began := time.Now()
	epochMax, err := s.broker.Recover(ctx, s.controller.Image())
	if err != nil {
		return err
	}
	metrics := s.engine.Metrics()
	s.config.Logger.Info("logs are open", "logs", metrics.Logs, "bytes_read", metrics.RecoveredBytes, "took", time.Since(began))
	advertised := s.advertised()
	result, err := s.controller.Propose(ctx, meta.StartBroker{
		ID: s.config.nodeID, DirectoryID: s.identity.directoryID, Host: advertised.host, Port: int32(advertised.port),
		Rack: s.config.rack, LogsEpochMax: epochMax,
	})
	if err != nil {
		return fmt.Errorf("server: starting broker %d: %w", s.config.nodeID, err)
	}
	s.config.Logger.Info("leader epoch granted", "epoch", result.(meta.StartBrokerResult).LeaderEpoch)
	image := s.controller.Image()
	if err := s.broker.Start(ctx, image); err != nil {
		return err
	}
	s.follow = s.controller.Subscribe(image, s.broker.Apply)
	return nil
}

// quorumStatus is the quorum as the broker's clients see it.
func (s *Server) quorumStatus() broker.QuorumStatus {
	status := s.controller.Status()
	return broker.QuorumStatus{LeaderID: status.LeaderID, Term: status.Term, Committed: status.Committed, Applied: status.Applied, Voters: status.Voters}
}

// fetchSessionsMax is max.incremental.fetch.session.cache.slots as the protocol wants it.
func (s *Server) fetchSessionsMax() int {
	if slots := int(s.config.integer("max.incremental.fetch.session.cache.slots")); slots > 0 {
		return slots
	}
	return kafka.FetchSessionsOff
}

// openListener begins to serve.
func (s *Server) openListener(ctx context.Context) error {
	s.kafka = kafka.New(kafka.Options{
		Broker:                s.broker,
		FrameBytesMax:         s.config.frameBytes,
		AutoCreateTopics:      s.config.boolean("auto.create.topics.enable"),
		TopicDeletionDisabled: !s.config.boolean("delete.topic.enable"),
		FetchSessionsMax:      s.fetchSessionsMax(),
		RequestMemoryBytes:    s.config.budget.requestBytes(),
		Logger:                s.config.Logger,
	})
	var err error
	s.listener, err = s.listen(ctx, stream.Options{
		Protocol:                 s.kafka,
		Pool:                     s.pools.frames,
		FrameBytesMax:            s.config.frameBytes,
		ConnectionsMax:           int(s.config.integer("max.connections")),
		ConnectionsPerAddressMax: int(s.config.integer("max.connections.per.ip")),
		IdleTimeout:              s.config.millis("connections.max.idle.ms"),
		Logger:                   s.config.Logger,
	})
	if err != nil {
		return err
	}
	s.unlimit = s.followLimits()
	if !s.config.listen.loopback() {
		s.config.Logger.Warn("the listener is open to other machines, without encryption or authentication", "address", s.listener.Addr().String())
	}
	return nil
}

// probePort finds out early, before anything is recovered or granted, that the
// broker can listen, and replaces port 0 by a free one: the port is part of
// the metadata before anybody can connect, so the listener cannot choose it. Should
// another process take it in between, the start fails after all.
func (s *Server) probePort(ctx context.Context) error {
	var config net.ListenConfig
	socket, err := config.Listen(ctx, "tcp", s.config.listen.String())
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	s.config.listen.port = uint16(socket.Addr().(*net.TCPAddr).Port)
	return socket.Close()
}

// advertised is the address that clients are told.
func (s *Server) advertised() address { return s.config.advertise(s.config.listen) }
