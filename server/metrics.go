package server

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"ringlog/buffer"
	"ringlog/coord"
	"ringlog/engine"
	"ringlog/frontend/kafka"
	"ringlog/frontend/kafka/fetchsession"
	"ringlog/group"
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
	// fetching describes the fetch sessions of consumers.
	fetching fetchsession.Status
	// requests is what large requests hold.
	requests kafka.RequestMemory
	// offline is the number of logs that could not be opened.
	offline int
	health  float64
	// coordinators runs groups, which are counted in groups.
	coordinators *coord.Metrics
	groups       group.Counts
	// offsetsCommitted counts offsets that consumers were told are committed.
	offsetsCommitted int64
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
var metrics = append([]metric{
	{"healthy", "Whether the broker and all its logs work: what /healthz says.", gauge, func(s *sample) float64 { return s.health }},
	{"offline_logs", "Logs that could not be opened or made; their partitions are offline.", gauge, func(s *sample) float64 { return float64(s.offline) }},

	{"network_connections", "Open connections of Kafka clients.", gauge, func(s *sample) float64 { return float64(s.stream.ConnectionsOpen.Load()) }},
	{"network_connections_light", "Open connections that event loops carry; the others have goroutines.", gauge, func(s *sample) float64 { return float64(s.stream.ConnectionsLight.Load()) }},
	{"network_connections_moved_total", "Connections that moved from an event loop to goroutines, because of what they move.", counter, func(s *sample) float64 { return float64(s.stream.ConnectionsMoved.Load()) }},
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
	{"network_writes_total", "Writes to clients; one takes all replies that are ready.", counter, func(s *sample) float64 { return float64(s.stream.Writes.Load()) }},
	{"network_budget_waits_total", "Times that a connection was not read because of its own requests in flight.", counter, func(s *sample) float64 { return float64(s.stream.BudgetWaits.Load()) }},
	{"network_memory_waits_total", "Times that a connection was not read because the memory for requests was spent.", counter, func(s *sample) float64 { return float64(s.stream.MemoryWaits.Load()) }},
	{"network_idle_closed_total", "Connections closed by connections.max.idle.ms.", counter, func(s *sample) float64 { return float64(s.stream.IdleClosed.Load()) }},
	{"network_silent_closed_total", "Connections closed because they never sent a whole request: after 30 s, or to make place for others.", counter, func(s *sample) float64 { return float64(s.stream.SilentClosed.Load()) }},
	{"network_slow_readers_closed_total", "Connections closed because the client did not read its replies.", counter, func(s *sample) float64 { return float64(s.stream.SlowReadersClosed.Load()) }},

	{"kafka_request_memory_limit_bytes", "What large requests and their answers may hold on the Go heap together.", gauge, func(s *sample) float64 { return float64(s.requests.LimitBytes) }},
	{"kafka_request_memory_in_use_bytes", "What large requests and their answers hold on the Go heap, as it is estimated.", gauge, func(s *sample) float64 { return float64(s.requests.InUseBytes) }},
	{"kafka_request_memory_waits_total", "Large requests that had to wait for memory.", counter, func(s *sample) float64 { return float64(s.requests.Waits) }},
	{"kafka_unread_answers_closed_total", "Connections closed because they did not read a large answer while others waited for memory.", counter, func(s *sample) float64 { return float64(s.requests.Evicted) }},
	{"kafka_fetch_sessions", "Consumers that fetch in a session (KIP-227).", gauge, func(s *sample) float64 { return float64(s.fetching.Sessions) }},
	{"kafka_fetch_session_partitions", "Partitions of all fetch sessions.", gauge, func(s *sample) float64 { return float64(s.fetching.Partitions) }},
	{"kafka_fetch_session_evictions_total", "Fetch sessions that made place for others; their consumers start over.", counter, func(s *sample) float64 { return float64(s.fetching.Evictions) }},

	{"group_groups", "Consumer groups that this broker coordinates, those with offsets only included.", gauge, func(s *sample) float64 { return float64(s.groups.Groups) }},
	{"group_offsets", "Committed offsets of all groups.", gauge, func(s *sample) float64 { return float64(s.groups.Offsets) }},
	{"group_offsets_committed_total", "Offsets that consumers were told are committed.", counter, func(s *sample) float64 { return float64(s.offsetsCommitted) }},
	{"coordinator_partitions", "Partitions of the topic of committed offsets that this broker leads.", gauge, func(s *sample) float64 { return float64(s.coordinators.Partitions.Load()) }},
	{"coordinator_loading", "Those of them whose log is being replayed; their groups wait.", gauge, func(s *sample) float64 { return float64(s.coordinators.Loading.Load()) }},
	{"coordinator_loads_total", "Logs replayed to the end.", counter, func(s *sample) float64 { return float64(s.coordinators.Loads.Load()) }},
	{"coordinator_load_failures_total", "Logs that could not be replayed; they are tried again.", counter, func(s *sample) float64 { return float64(s.coordinators.LoadFailures.Load()) }},
	{"coordinator_loaded_records_total", "Records replayed.", counter, func(s *sample) float64 { return float64(s.coordinators.LoadedRecords.Load()) }},
	{"coordinator_requests_total", "Requests and notices taken by coordinators.", counter, func(s *sample) float64 { return float64(s.coordinators.Requests.Load()) }},
	{"coordinator_refused_total", "Requests answered without a coordinator: none here, loading, or too many wait.", counter, func(s *sample) float64 { return float64(s.coordinators.Refused.Load()) }},
	{"coordinator_appends_total", "Batches appended by coordinators.", counter, func(s *sample) float64 { return float64(s.coordinators.Appends.Load()) }},
	{"coordinator_append_failures_total", "Batches that did not become committed; their coordinators are loaded again.", counter, func(s *sample) float64 { return float64(s.coordinators.AppendFailures.Load()) }},
	{"coordinator_appended_records_total", "Records in the batches appended.", counter, func(s *sample) float64 { return float64(s.coordinators.AppendedRecords.Load()) }},
	{"coordinator_panics_total", "Coordinators thrown away because of a fault of the broker: each is a bug.", counter, func(s *sample) float64 { return float64(s.coordinators.Panics.Load()) }},

	{"metadata_topics", "Topics.", gauge, func(s *sample) float64 { return float64(s.image.TopicCount()) }},
	{"metadata_partitions", "Partitions of all topics.", gauge, func(s *sample) float64 { return float64(s.image.PartitionCount()) }},
	{"metadata_tombstones", "Logs of deleted topics that are not reported gone by every broker.", gauge, func(s *sample) float64 { return float64(len(s.image.Tombstones())) }},
	{"metadata_leader", "Broker id of the quorum's leader, -1 when there is none.", gauge, func(s *sample) float64 { return float64(s.quorum.LeaderID) }},
	{"metadata_term", "Term of the quorum.", gauge, func(s *sample) float64 { return float64(s.quorum.Term) }},
	{"metadata_applied_index", "Index of the metadata log that is applied.", gauge, func(s *sample) float64 { return float64(s.quorum.Applied) }},
	{"metadata_log_bytes", "Bytes of the metadata log behind the snapshot.", gauge, func(s *sample) float64 { return float64(s.quorum.LogBytes) }},
	{"metadata_snapshot_bytes", "Bytes of the metadata snapshot.", gauge, func(s *sample) float64 { return float64(s.quorum.SnapshotBytes) }},
}, engineMetrics...)

// groupsCountTimeout bounds how long whoever looks waits for coordinators that wait for the disk.
const groupsCountTimeout = time.Second

// collector shows all parts of a Server to Prometheus.
type collector struct{ server *Server }

var (
	descriptions     = describe()
	apiRequests      = prometheus.NewDesc("ringlog_kafka_requests_total", "Kafka requests, by API.", []string{"api"}, nil)
	apiErrors        = prometheus.NewDesc("ringlog_kafka_errors_total", "Partitions, topics and requests answered with an error, by API.", []string{"api"}, nil)
	sessionsClosed   = prometheus.NewDesc("ringlog_kafka_sessions_closed_total", "Connections closed for what came on them, by cause.", []string{"cause"}, nil)
	handlerPanics    = prometheus.NewDesc("ringlog_kafka_panics_total", "Requests that hit a fault of the broker: each is a bug.", nil, nil)
	skewedBatches    = prometheus.NewDesc("ringlog_kafka_skewed_batches_total", "Batches that were stored although their timestamps lie further back than retention.ms, or more than an hour ahead of the broker's clock.", nil, nil)
	poolLimitBytes   = prometheus.NewDesc("ringlog_memory_limit_bytes", "Parts of the memory budget.", []string{"pool"}, nil)
	poolInUseBytes   = prometheus.NewDesc("ringlog_memory_in_use_bytes", "What of each part is in use.", []string{"pool"}, nil)
	labelled         = append([]*prometheus.Desc{apiRequests, apiErrors, sessionsClosed, handlerPanics, skewedBatches, poolLimitBytes, poolInUseBytes}, engineDescriptions()...)
	_                = prometheus.Collector(&collector{})
	metricNamePrefix = "ringlog_"
)

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
	look := sample{engine: s.engine.Metrics(), stream: s.listener.Metrics(), quorum: s.controller.Status(), image: s.controller.Image(), offline: s.broker.OfflineLogs(), fetching: s.kafka.FetchSessions(), requests: s.kafka.RequestMemory()}
	if s.Ready() {
		look.health = 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), groupsCountTimeout)
	defer cancel()
	look.coordinators, look.groups = s.broker.GroupMetrics(), s.broker.CountGroups(ctx)
	look.offsetsCommitted = s.kafka.Metrics().OffsetsCommitted.Load()
	for n, m := range metrics {
		out <- prometheus.MustNewConstMetric(descriptions[n], m.kind, m.value(&look))
	}
	collectEngine(&look.engine, out)
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
	out <- prometheus.MustNewConstMetric(skewedBatches, counter, float64(counted.SkewedBatches.Load()))
	for _, pool := range []*buffer.Pool{s.pools.frames, s.pools.tail, s.pools.cold} {
		out <- prometheus.MustNewConstMetric(poolLimitBytes, gauge, float64(pool.LimitBytes()), pool.Name())
		out <- prometheus.MustNewConstMetric(poolInUseBytes, gauge, float64(pool.InUseBytes()), pool.Name())
	}
}
