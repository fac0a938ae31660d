// Package stream serves a frontend.Protocol over TCP with one goroutine per
// connection that reads and one that writes: the plain way, for bulk
// connections, for every platform, and where not reading has to mean
// back-pressure. server calls Listen once per listener; nothing else here is
// called from outside except through frontend.Conn and frontend.Turn, and Light.
//
// Light is the other life of a connection, before it has goroutines: package loop lends
// it an event loop, and everything below holds except that its owner is the loop's
// goroutine, which reads, writes and never waits. What would wait makes it heavy, for good.
//
// # Who owns what
//
//	             accept goroutine          one per listener; makes connections
//	             sweep goroutine           one per listener; all timeouts
//	socket ──▶ reader goroutine ──▶ Session.Receive      owns the Session, the read buffer and the tail of the turn queue
//	socket ◀── writer goroutine ◀── turn queue ◀── Turn.Complete (any goroutine)      owns the queue's head
//
// The reader goroutine lives as long as its connection and tears it down. The
// writer goroutine starts at the first Turn, so a connection that never asks
// anything costs one goroutine and no buffer.
//
// # Reading
//
// A connection without a partial frame holds no memory of the pool: its block
// is taken when the socket is about to be read and given back when the socket
// had nothing. Small frames are read ahead into one block, up to 128 KiB with
// one system call, and handed on where they lie, each with its own reference. A
// large frame gets a block of its own, filled exactly (with the prefix of the next
// frame behind it when that costs no larger block), so its bytes are never
// moved. What a peer claims is believed in steps: 128 KiB, 1 MiB, then four
// times as much each time the last step was filled.
//
// Reading stops while the connection has InFlightRequestsMax requests or
// InFlightBytesPerConnectionMax bytes unanswered, or the pool is spent. TCP
// then slows the peer down. A connection that waits for memory while it holds a
// partial frame gives up after MemoryTimeout (to twice that, by lot): many such connections could
// otherwise hold the whole pool and wait for each other for ever.
//
// # Writing
//
// Turns form a queue in request order. Whoever completes the turn at the head
// wakes the writer, which takes everything that is ready behind it and writes
// it with one writev. Nobody else is ever woken: see turn.go for the proof that
// no wake-up is lost.
//
// # Time
//
// No timer, deadline or clock is touched on the hot path. The reader and the writer count
// their progress, and the sweep goroutine closes whoever made none for too long.
package stream
