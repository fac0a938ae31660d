// Package server is the composition root: configuration in, running broker out.
// It is the only package, besides the command and simulations, that knows all
// others; what the parts know of each other is an interface that one of them
// declares and that is joined here.
//
// # Order
//
// Start takes what it needs in the order in which each step proves the next
// one safe, and Shutdown gives it back in the opposite order:
//
//	lock of the directory ─▶ whose data it is ─▶ disk ─▶ quorum ─▶ logs ─▶
//	one leader epoch above all of them ─▶ broker ─▶ listeners ─▶ ready
//
// A step that fails undoes those before it, so that a Start that returns an
// error has left nothing behind but files.
//
// # Directory
//
//	ringlog.lock        locked while a process uses the directory
//	ringlog.properties  whose data this is: cluster id, node id, format (identity.go)
//	metadata.db         the metadata log (package raftctl)
//	logs/               the storage engine's (package engine)
//
// # Goroutines
//
// A Server starts none of its own but one that gives idle memory back (trim.go)
// and one that watches for parts that fail by themselves (watch.go). Configuration
// and wiring happen on the caller's goroutine.
package server
