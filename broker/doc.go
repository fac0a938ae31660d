// Package broker holds what this node does for clients, free of any protocol:
// produce, fetch, offsets, topics, configurations, producer ids. Every frontend
// calls it and no frontend's codes are known here: errors are typed sentinels,
// each frontend has a table of its own.
//
// # What is served
//
// The controller makes images of the cluster (package meta). The reconciler
// (reconcile.go) carries each image out: it creates, configures, leads and
// deletes logs, and publishes the image together with the table of open
// logs as one view. All requests read a view. So a topic is never shown before
// its logs can be written, and a topic create is answered when the view has it.
//
//	controller ──Apply(delta, image)──▶ reconciler ──Create/Lead/Configure/Delete──▶ engine
//	                                         │
//	                                         └──publish──▶ view ◀──read── every request
//
// # Goroutines
//
// Methods of [Broker] are safe for concurrent use. Produce and Fetch do not
// block: they run in the caller's goroutine up to the hand-over to a shard, and
// their callbacks run on the shard's thread. Only what takes long, the decompression
// of more than 64 KiB, goes on in one of a few checkers, in the order of its
// connection ([Sequence]). Apply belongs to the goroutine of
// one subscription. Everything else may wait and takes a context.
package broker
