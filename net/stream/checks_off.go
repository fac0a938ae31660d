//go:build !race && !invariants

package stream

// reuseTurns lets a connection recycle its turns: no allocation per request.
const reuseTurns = true
