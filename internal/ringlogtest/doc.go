// Package ringlogtest runs the real binary for tests: builds it once per test
// process, starts brokers on free loopback ports, stops or kills them and
// starts them again on the same data. Tests of the command line, of other
// people's clients, and of what survives a kill use it.
//
// A test package that uses it hands its TestMain over to Main. A Broker belongs
// to the test that started it, which calls its methods from one goroutine. Race
// tests run a binary that was built with the race detector, and fail when it
// found a race.
package ringlogtest
