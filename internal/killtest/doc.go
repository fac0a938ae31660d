// Package killtest kills the real binary under load, again and again, and looks
// for every record that it had acknowledged: each must be there once, at its
// offset, unchanged, in its producer's order, between dense offsets, with
// nothing beside what was sent, and whatever a consumer was ever shown must still be
// there too. Of a compacted topic, a reader must end with the newest value of every
// key.
//
// The package itself is the memory of what happened and the judge of what is
// found; it knows no broker, and its own tests plant every kind of fault. The
// load and the kills are in its test files:
//
//	go test ./internal/killtest -run TestKill -v -args -kills=25 -seed=7
//
// A seed fixes the schedule (what is sent where, when the kill comes). How far
// the broker got by then it cannot fix, so a failure prints the seed and the
// history that contradicts it.
package killtest
