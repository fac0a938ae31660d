// Package brokertest sets the scene for tests of package broker and of the
// frontends above it: a controller without a quorum, an engine without a disk,
// and a broker on both. Nothing here is used by a running broker.
package brokertest
