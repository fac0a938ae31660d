package coord

import "sync/atomic"

// Metrics are a runtime's figures.
type Metrics struct {
	// Partitions is how many partitions this broker leads.
	Partitions atomic.Int64
	// Loading is how many of them are being replayed or wait for that.
	Loading atomic.Int64
	// Loads counts the logs replayed to the end, LoadFailures those that could not be.
	Loads, LoadFailures atomic.Int64
	// LoadedRecords counts the records replayed.
	LoadedRecords atomic.Int64
	// Requests counts what machines were asked, Refused what was answered without them.
	Requests, Refused atomic.Int64
	// Appends counts batches appended, AppendedRecords the records in them, AppendFailures the batches that did
	// not become committed.
	Appends, AppendedRecords, AppendFailures atomic.Int64
	// Panics counts machines thrown away because of a fault of ours.
	Panics atomic.Int64
}

// Metrics returns the runtime's figures, which go on counting.
func (r *Runtime) Metrics() *Metrics { return &r.metrics }

// Waiting is how many requests no machine has seen yet.
func (r *Runtime) Waiting() int { return r.inbox.waiting() }
