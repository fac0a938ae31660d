package server

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"ringlog/buffer"
	"ringlog/engine"
	"ringlog/meta"
	"ringlog/net/stream"
	"ringlog/raftctl"
)

// registerProcess adds what every Go process can tell.
func registerProcess(registry *prometheus.Registry) {
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(),
	)
}

// sample is one look at all parts.
type sample struct {
	engine engine.Metrics
	stream *stream.Metrics
	quorum raftctl.Status
	image  *meta.Image
	// offline is the number of logs that could not be opened.
	offline int
	health  float64
}

// metric is one figure without labels.
type metric struct {
	name  string // behind "ringlog_"
	help  string
	kind  prometheus.ValueType
	value func(s *sample) float64
}

const (
	gauge   = prometheus.GaugeValue
	counter = prometheus.CounterValue
)

// metrics is everything that is exported without labels. Labels are only what is
// bounded by this program: an API, a pool, a shard; never a topic or a client.
var metrics = []metric{
	{"healthy", "Whether the broker and all its logs work: what /healthz says.", gauge, func(s *sample) float64 { return s.health }},

	{"engine_appends_total", "Batches that got an offset.", counter, func(s *sample) float64 { return float64(s.engine.Appends) }},
	{"engine_append_bytes_total", "Bytes of batches that got an offset.", counter, func(s *sample) float64 { return float64(s.engine.AppendBytes) }},
	{"engine_writes_total", "Writes to segments.", counter, func(s *sample) float64 { return float64(s.engine.Writes) }},
	{"engine_write_bytes_total", "Bytes written to segments, in whole blocks.", counter, func(s *sample) float64 { return float64(s.engine.WriteBytes) }},
	{"engine_short_writes_total", "Writes that the device took in part and that were submitted again.", counter, func(s *sample) float64 { return float64(s.engine.ShortWrites) }},
	{"engine_flushes_total", "Flushes of the device.", counter, func(s *sample) float64 { return float64(s.engine.Flushes) }},
	{"engine_flush_seconds_total", "Time that flushes took.", counter, func(s *sample) float64 { return s.engine.FlushTime.Seconds() }},
	{"engine_rolls_total", "Segments that were started because another was full or old.", counter, func(s *sample) float64 { return float64(s.engine.Rolls) }},
	{"engine_tail_evictions_total", "Pieces of the tail cache given up for new records.", counter, func(s *sample) float64 { return float64(s.engine.Evictions) }},
	{"engine_logs", "Open logs.", gauge, func(s *sample) float64 { return float64(s.engine.Logs) }},
	{"engine_poisoned_logs", "Logs that take no more records after a disk failure.", gauge, func(s *sample) float64 { return float64(s.engine.PoisonedLogs) }},
	{"offline_logs", "Logs that could not be opened or made; their partitions are offline.", gauge, func(s *sample) float64 { return float64(s.offline) }},
	{"engine_tail_bytes", "Memory of the tails of logs, not flushed yet and cached.", gauge, func(s *sample) float64 { return float64(s.engine.TailBytes) }},
	{"engine_index_bytes", "Memory of the indexes of sealed segments.", gauge, func(s *sample) float64 { return float64(s.engine.IndexBytes) }},
	{"engine_files_open", "Segment files that are open.", gauge, func(s *sample) float64 { return float64(s.engine.FilesOpen) }},
	{"engine_waiting_appends", "Batches that wait for memory or disk space.", gauge, func(s *sample) float64 { return float64(s.engine.WaitingAppends) }},
	{"engine_parked_reads", "Fetches that wait for records.", gauge, func(s *sample) float64 { return float64(s.engine.ParkedReads) }},
	{"engine_tail_reads_total", "Reads served from memory.", counter, func(s *sample) float64 { return float64(s.engine.TailReads) }},
	{"engine_tail_read_bytes_total", "Bytes served from memory.", counter, func(s *sample) float64 { return float64(s.engine.TailReadBytes) }},
	{"engine_cold_reads_total", "Reads served from disk.", counter, func(s *sample) float64 { return float64(s.engine.ColdReads) }},
	{"engine_cold_read_bytes_total", "Bytes served from disk.", counter, func(s *sample) float64 { return float64(s.engine.ColdReadBytes) }},
	{"engine_corruptions_total", "Stored ranges found corrupt.", counter, func(s *sample) float64 { return float64(s.engine.Corruptions) }},
	{"engine_checkpoints_total", "Recovery checkpoints written.", counter, func(s *sample) float64 { return float64(s.engine.Checkpoints) }},
	{"engine_segments_deleted_total", "Segments that retention removed.", counter, func(s *sample) float64 { return float64(s.engine.SegmentsDeleted) }},
	{"engine_recovered_bytes_total", "Bytes read to open logs.", counter, func(s *sample) float64 { return float64(s.engine.RecoveredBytes) }},
	{"engine_recovery_seconds_total", "Time that opening logs took, all logs together.", counter, func(s *sample) float64 { return s.engine.RecoveryTime.Seconds() }},

	{"network_connections", "Open connections of Kafka clients.", gauge, func(s *sample) float64 { return float64(s.stream.ConnectionsOpen.Load()) }},
	{"network_connections_accepted_total", "Connections accepted.", counter, func(s *sample) float64 { return float64(s.stream.ConnectionsAccepted.Load()) }},
	{"network_connections_refused_total", "Connections turned away by max.connections or max.connections.per.ip.", counter,
		func(s *sample) float64 {
			return float64(s.stream.ConnectionsRefused.Load() + s.stream.ConnectionsRefusedByAddress.Load())
		}},
	{"network_accept_errors_total", "Failures to accept a connection, such as a lack of file descriptors.", counter, func(s *sample) float64 { return float64(s.stream.AcceptErrors.Load()) }},
	{"network_received_bytes_total", "Bytes read from clients.", counter, func(s *sample) float64 { return float64(s.stream.BytesIn.Load()) }},
	{"network_sent_bytes_total", "Bytes written to clients.", counter, func(s *sample) float64 { return float64(s.stream.BytesOut.Load()) }},
	{"network_requests_total", "Whole requests received.", counter, func(s *sample) float64 { return float64(s.stream.Requests.Load()) }},
	{"network_replies_total", "Replies written.", counter, func(s *sample) float64 { return float64(s.stream.Replies.Load()) }},
	{"network_budget_waits_total", "Times that a connection was not read because of its own requests in flight.", counter, func(s *sample) float64 { return float64(s.stream.BudgetWaits.Load()) }},
	{"network_memory_waits_total", "Times that a connection was not read because the memory for requests was spent.", counter, func(s *sample) float64 { return float64(s.stream.MemoryWaits.Load()) }},
	{"network_idle_closed_total", "Connections closed by connections.max.idle.ms.", counter, func(s *sample) float64 { return float64(s.stream.IdleClosed.Load()) }},
	{"network_slow_readers_closed_total", "Connections closed because the client did not read its replies.", counter, func(s *sample) float64 { return float64(s.stream.SlowReadersClosed.Load()) }},

	{"metadata_topics", "Topics.", gauge, func(s *sample) float64 { return float64(s.image.TopicCount()) }},
	{"metadata_partitions", "Partitions of all topics.", gauge, func(s *sample) float64 { return float64(s.image.PartitionCount()) }},
	{"metadata_tombstones", "Logs of deleted topics that are not reported gone by every broker.", gauge, func(s *sample) float64 { return float64(len(s.image.Tombstones())) }},
	{"metadata_leader", "Broker id of the quorum's leader, -1 when there is none.", gauge, func(s *sample) float64 { return float64(s.quorum.LeaderID) }},
	{"metadata_term", "Term of the quorum.", gauge, func(s *sample) float64 { return float64(s.quorum.Term) }},
	{"metadata_applied_index", "Index of the metadata log that is applied.", gauge, func(s *sample) float64 { return float64(s.quorum.Applied) }},
	{"metadata_log_bytes", "Bytes of the metadata log behind the snapshot.", gauge, func(s *sample) float64 { return float64(s.quorum.LogBytes) }},
	{"metadata_snapshot_bytes", "Bytes of the metadata snapshot.", gauge, func(s *sample) float64 { return float64(s.quorum.SnapshotBytes) }},
}

// collector shows all parts of a Server to Prometheus.
type collector struct{ server *Server }

var (
	descriptions     = describe()
	apiRequests      = prometheus.NewDesc("ringlog_kafka_requests_total", "Kafka requests, by API.", []string{"api"}, nil)
	apiErrors        = prometheus.NewDesc("ringlog_kafka_errors_total", "Partitions, topics and requests answered with an error, by API.", []string{"api"}, nil)
	sessionsClosed   = prometheus.NewDesc("ringlog_kafka_sessions_closed_total", "Connections closed for what came on them, by cause.", []string{"cause"}, nil)
	handlerPanics    = prometheus.NewDesc("ringlog_kafka_panics_total", "Requests that hit a fault of the broker: each is a bug.", nil, nil)
	poolLimitBytes   = prometheus.NewDesc("ringlog_memory_limit_bytes", "Parts of the memory budget.", []string{"pool"}, nil)
	poolInUseBytes   = prometheus.NewDesc("ringlog_memory_in_use_bytes", "What of each part is in use.", []string{"pool"}, nil)
	labelled         = append([]*prometheus.Desc{apiRequests, apiErrors, sessionsClosed, handlerPanics, poolLimitBytes, poolInUseBytes}, shardDescriptions()...)
	_                = prometheus.Collector(&collector{})
	metricNamePrefix = "ringlog_"
)

// shardMetrics is what shows how evenly the shards of the engine are loaded.
var shardMetrics = []struct {
	description *prometheus.Desc
	kind        prometheus.ValueType
	value       func(m *engine.Metrics) int64
}{
	{shardDescription("logs", "Open logs, by shard."), gauge, func(m *engine.Metrics) int64 { return m.Logs }},
	{shardDescription("append_bytes_total", "Bytes of batches that got an offset, by shard."), counter, func(m *engine.Metrics) int64 { return m.AppendBytes }},
	{shardDescription("flushes_total", "Flushes of the device, by shard."), counter, func(m *engine.Metrics) int64 { return m.Flushes }},
}

func shardDescription(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(metricNamePrefix+"shard_"+name, help, []string{"shard"}, nil)
}

func shardDescriptions() []*prometheus.Desc {
	var list []*prometheus.Desc
	for _, m := range shardMetrics {
		list = append(list, m.description)
	}
	return list
}

func describe() []*prometheus.Desc {
	list := make([]*prometheus.Desc, len(metrics))
	for n, m := range metrics {
		list[n] = prometheus.NewDesc(metricNamePrefix+m.name, m.help, nil, nil)
	}
	return list
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, description := range descriptions {
		out <- description
	}
	for _, description := range labelled {
		out <- description
	}
}

// Collect implements prometheus.Collector. There is nothing to tell before the start is over.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	s := c.server
	if !s.started.Load() {
		return
	}
	look := sample{engine: s.engine.Metrics(), stream: s.listener.Metrics(), quorum: s.controller.Status(), image: s.controller.Image(), offline: s.broker.OfflineLogs()}
	if s.Ready() {
		look.health = 1
	}
	for n, m := range metrics {
		out <- prometheus.MustNewConstMetric(descriptions[n], m.kind, m.value(&look))
	}
	for n := range look.engine.Shards {
		for _, m := range shardMetrics {
			out <- prometheus.MustNewConstMetric(m.description, m.kind, float64(m.value(&look.engine.Shards[n])), strconv.Itoa(n))
		}
	}
	counted := s.kafka.Metrics()
	counted.ByAPI(func(name string, requests, errors int64) {
		out <- prometheus.MustNewConstMetric(apiRequests, counter, float64(requests), name)
		out <- prometheus.MustNewConstMetric(apiErrors, counter, float64(errors), name)
	})
	for cause, count := range map[string]int64{
		"malformed": counted.Malformed.Load(), "unsupported": counted.Unsupported.Load(), "unacknowledged failure": counted.UnacknowledgedFailures.Load(),
		"frame too large": look.stream.FramesTooLarge.Load(), "unfinished frame": look.stream.UnfinishedFramesClosed.Load(), "out of memory": look.stream.MemoryTimeoutsClosed.Load(),
	} {
		out <- prometheus.MustNewConstMetric(sessionsClosed, counter, float64(count), cause)
	}
	out <- prometheus.MustNewConstMetric(handlerPanics, counter, float64(counted.Panics.Load()))
	for _, pool := range []*buffer.Pool{s.pools.frames, s.pools.tail, s.pools.cold} {
		out <- prometheus.MustNewConstMetric(poolLimitBytes, gauge, float64(pool.LimitBytes()), pool.Name())
		out <- prometheus.MustNewConstMetric(poolInUseBytes, gauge, float64(pool.InUseBytes()), pool.Name())
	}
}
