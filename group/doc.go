// Package group is the coordinator of consumer groups and their committed offsets: a pure state
// machine ([Machine], a coord.Machine), one for each partition of the topic __consumer_offsets.
// It knows no protocol: requests and answers are plain structs, errors are
// sentinels ([ErrUnknownMember] and its like), which a frontend turns into its own codes.
//
//	Step(now, request) ──▶ records for the partition's log, answers, events
//	Replay(record)     ──▶ the same state again, after a restart or a move
//
// A [group] has committed offsets (offsets.go) and, while it has or had members, one kind of
// membership: classic (classic.go), where the clients decide and the coordinator only keeps the
// barrier, or consumer (consumer.go, KIP-848), where the coordinator assigns.
//
// Records have the formats of Kafka's own __consumer_offsets (stored.go), so that the tools
// that read that topic elsewhere read it here.
//
// # Ownership
//
// A machine belongs to the goroutine of package coord's runtime that calls it. Requests and answers are
// handed over: whoever made one does not touch it again. Configuration and image never change
// after they were handed in.
package group
