// Package loop serves a frontend.Protocol over TCP with a few event loops instead of
// goroutines per connection: for thousands of connections that each do little. It
// is net/stream with gnet under the light ones: accepting, limits, budgets, timeouts,
// sessions and order are that package's; here is what gnet is given to do, and what not.
// server calls Listen once per listener.
//
//	accept goroutine ──admitted──▶ gnet loop ──▶ stream.Light ──▶ Session.Receive
//	  (net/stream)                    │  ▲              │
//	                                  │  └── bell ◀── Turn.Complete (any goroutine)
//	                                  ▼
//	                     heavy: a second descriptor, goroutines of net/stream
//
// A loop's goroutine owns its connections: their sessions, their reading, their writing.
// It is not locked to a thread (locked, gnet is half as fast). What a connection holds
// while nothing happens is a few small structs and no memory of the pool: measured, 10,000 connections
// with a parked fetch each cost the broker 36 MB and no goroutine, with net/stream alone 118 MB and 20,000.
//
// # How gnet is used
//
//   - Its event loops only, as a gnet.Client without an address. Its acceptor would
//     shut the whole engine down at the first accept that fails, as it does when
//     descriptors run out; that of net/stream pauses and goes on. A new connection goes
//     to the loop with the fewest.
//   - Nothing is left in its inbound buffer, which copies and grows: each event takes what gnet has
//     read into a block of the pool and reads on from the descriptor into the same
//     block. gnet's own read is kept small (readBytes): it is all that has to go
//     somewhere when the pool is spent.
//   - Nothing goes through its outbound buffer, which has no bound and is dropped at a
//     close: replies are written to the descriptor, from where they lie. What the socket does not
//     take makes the connection heavy.
//   - It cannot stop reading one connection. So whatever asks for that moves the
//     connection to net/stream, where not reading is the back-pressure (see stream.Light).
//
// # Completions
//
// A reply that is finished elsewhere puts its connection on the loop's list, once, and
// whoever does so while the loop is not at the list rings its bell, an eventfd that is enrolled like a
// connection. So a burst of replies costs one wake-up. There and back that takes 5 µs (BenchmarkWake).
// gnet's own ways, Conn.Wake and EventLoop.Execute, take 3.5 but leave two objects to the
// collector each time; a Unix socket as bell takes 9. Under load from outside the three could not be told
// apart, so garbage decided. A completion names the connection's object, which no other peer
// ever gets, and not its descriptor, which may be another's by then.
package loop
