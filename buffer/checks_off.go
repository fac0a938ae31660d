//go:build !race && !invariants

package buffer

const checksForced = false
