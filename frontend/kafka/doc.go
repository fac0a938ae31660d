// Package kafka speaks the Kafka protocol: it implements frontend.Protocol and
// frontend.Session on kmsg and calls package broker for everything that is not
// a byte layout. One file holds one API; its head comment names the versions,
// what they changed, and the KIPs. The registry (registry.go) is the list of
// what is served, and ApiVersions answers from nothing else. Broker and engine
// errors become Kafka codes in errors.go and nowhere else.
//
// # Order
//
// Kafka handles one request of a connection at a time. Here produces run
// concurrently and are answered in order; every other request starts when all
// replies before it were written (late binding, frontend.Conn.Turn), so a client
// that pipelines "create topic, produce, list offsets" sees what it would see from
// Kafka, and a fetch takes memory only when its bytes can leave.
//
// # Goroutines
//
// FrameBytes, Receive and Closed belong to the connection's owner. A produce is
// decoded and validated there, answered on a shard's thread. A fetch starts on
// the connection's writer and is answered on a shard's thread. All other
// handlers run in a goroutine of their own, at most one per connection at a
// time, with a context that ends with the connection.
//
// # What a peer may cost
//
// A request's bytes are checked against the listener's limit before there is
// memory for them. Produce and Fetch are decoded by hand and grow as bytes prove
// their counts, up to partitionCountMax. All other bodies are limited to
// controlBodyBytesMax before kmsg sees them; kmsg in turn checks each count
// against the bytes that are left. Whatever waits for its turn waits undecoded (waiting.go),
// and what large requests and their answers hold on the Go heap is bounded for all
// connections together (memory.go).
package kafka
