package kafka

import "sync/atomic"

// Metrics counts what the sessions of a Protocol did. All fields only grow but
// Sessions.
type Metrics struct {
	// Sessions is the number of connections that are open.
	Sessions atomic.Int64
	// Requests counts requests with a known API key, by key.
	Requests [apiKeyLimit]atomic.Int64
	// Errors counts partitions, topics and requests answered with an error, by API key.
	Errors [apiKeyLimit]atomic.Int64
	// Malformed counts frames that closed their connection because they could
	// not be decoded or were larger than allowed.
	Malformed atomic.Int64
	// Unsupported counts frames that closed their connection because of their
	// API key or version.
	Unsupported atomic.Int64
	// UnacknowledgedFailures counts produces with acks=0 that failed and so
	// closed their connection.
	UnacknowledgedFailures atomic.Int64
	// OffsetsCommitted counts partitions whose offset was answered as committed.
	OffsetsCommitted atomic.Int64
	// SkewedBatches counts batches that were stored although their timestamps lie too far from the
	// broker's clock to be believed.
	SkewedBatches atomic.Int64
	// Panics counts handlers that hit a fault of ours. Anything above zero is a bug.
	Panics atomic.Int64
}
