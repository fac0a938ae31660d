//go:build !race

package hostiletest

// raceDetector says that the broker is built with the race detector, which makes it several
// times as slow and large.
const raceDetector = false
