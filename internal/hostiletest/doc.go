// Package hostiletest sends the real binary what no client would: frames that are cut, that lie
// about their lengths and counts, bytes that come one at a time, replies that are never read,
// connections that say nothing, batches that decompress to a thousand times their size, names
// that look like paths. Beside it a healthy producer and a healthy consumer do their work; they must not
// lose a record, and the broker must not grow past its budgets or fall over.
//
// Everything is in its test files. TestStorm is the whole at once, the others one kind each
// (docs/security.md lists them beside the limit that they show):
//
//	go test ./internal/hostiletest -run TestStorm -v -args -frames=20000 -half-open=10000 -seed=7
//
// How long the healthy clients waited is printed, before and during, and not asserted: the
// tests and the broker share the machine.
package hostiletest
