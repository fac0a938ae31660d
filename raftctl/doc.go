// Package raftctl is the control plane: a quorum of one to five brokers that
// orders the commands of package meta by etcd's raft and applies them, each to
// the same image. It stands beside the data path, which only reads images.
//
//	Propose ──▶ raft log (bbolt, flushed) ──▶ committed ──▶ meta.Apply ──▶ Image, subscribers
//
// A single broker is a quorum of one: the same code with nobody to send to.
//
// # Goroutines
//
// One goroutine owns raft, the store and the images it makes (loop.go). It
// persists every Ready before it sends its messages or applies its entries, as
// raft demands, all proposals that came meanwhile in one flush. Each
// subscriber has a goroutine of its own, so that a slow one holds up nobody:
// what it has missed by the time it looks again comes to it as one delta.
//
// # Stored form
//
// One bbolt file, metadata.db, holds identity, hard state, log and snapshot;
// store.go has the layout. A file that is damaged, empty, of another cluster or broker, or
// of a newer version is refused; it is never replaced by an empty one.
package raftctl
