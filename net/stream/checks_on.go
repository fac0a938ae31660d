//go:build race || invariants

package stream

// reuseTurns is off in checked builds, so that completing a turn twice always
// meets the completed turn and panics, never its next user.
const reuseTurns = false
