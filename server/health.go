package server

import (
	"context"
	"fmt"

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
	case s.broker.OfflineLogs() > 0:
		health.Healthy = false
		health.Sentence = fmt.Sprintf("serving, but %d log(s) could not be opened and are offline; see the log for which and why", s.broker.OfflineLogs())
	}
	return health
}

func ended(signal <-chan struct{}) bool {
	select {
	case <-signal:
		return true
	default:
		return false
	}
}
