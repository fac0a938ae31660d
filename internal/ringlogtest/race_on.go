//go:build race

package ringlogtest

const raceDetector = true
