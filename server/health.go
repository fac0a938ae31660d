package server

import (
	"context"
	"fmt"
	"time"

	"ringlog/frontend/admin"
)

// health says how the broker is: what is wrong first, as people have to act on it.
func (s *Server) health(context.Context) admin.Health {
	switch state(s.state.Load()) {
	case stateStarting:
		return admin.Health{Sentence: "starting: logs are being opened"}
	case stateStopping, stateStopped:
		return admin.Health{Sentence: "stopping"}
	}
	quorum, logs := s.controller.Status(), s.engine.Metrics()
	health := admin.Health{Healthy: true, Sentence: "serving", Details: map[string]any{
		"node": s.config.nodeID, "cluster": s.identity.clusterID, "leader": quorum.LeaderID, "metadata_index": quorum.Applied,
		"topics": s.controller.Image().TopicCount(), "logs": logs.Logs, "poisoned_logs": logs.PoisonedLogs, "offline_logs": s.broker.OfflineLogs(),
		"damaged_ranges": logs.DamagedRanges, "oldest_disk_operation_seconds": logs.OldestOperation.Seconds(),
	}}
	switch err := s.controller.Err(); {
	case ended(s.engine.Ended()):
		health.Healthy = false
		health.Sentence = "stopping: " + ErrEngineEnded.Error()
	case err != nil:
		health.Healthy = false
		health.Sentence = fmt.Sprintf("serving, but metadata cannot change until restart: %v", err)
	case quorum.LeaderID < 0:
		health.Healthy = false
		health.Sentence = "serving, but the quorum has no leader: metadata cannot change"
	case logs.PoisonedLogs > 0:
		health.Healthy = false
		health.Sentence = fmt.Sprintf("serving, but %d log(s) take no more records after a disk failure; see the log for which and why", logs.PoisonedLogs)
	case logs.OldestOperation >= diskHungAfter:
		health.Healthy = false
		health.Sentence = fmt.Sprintf("serving, but the disk has not answered for %v", logs.OldestOperation.Round(time.Second))
	case s.broker.OfflineLogs() > 0:
		health.Healthy = false
		health.Sentence = fmt.Sprintf("serving, but %d log(s) could not be opened and are offline; see the log for which and why", s.broker.OfflineLogs())
	// These are for people: a restart, or traffic elsewhere, would not make them better.
	case logs.SlowShards > 0:
		health.Sentence = fmt.Sprintf("serving; the disk is slow: it has not answered for %v", logs.OldestOperation.Round(time.Second))
	case logs.DamagedRanges > 0:
		health.Sentence = fmt.Sprintf("serving; %d stored range(s) are damaged and not served; see the log for which", logs.DamagedRanges)
	}
	return health
}

// diskHungAfter is when a disk that does not answer makes the broker unhealthy: clients have given up by
// then, and whoever balances load should go elsewhere.
const diskHungAfter = 30 * time.Second

func ended(signal <-chan struct{}) bool {
	select {
	case <-signal:
		return true
	default:
		return false
	}
}
