//go:build race

package record

// raceDetector says that sync.Pool drops what it is given at random, so that
// pooled objects are allocated again.
const raceDetector = true
