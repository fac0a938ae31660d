// Package frontendtest is the conformance suite of the seam in package
// frontend: whatever carries bytes for a frontend.Protocol has to pass Run. The tests of
// net/stream and net/loop call it.
//
// Three parts: a protocol made to find faults of its carrier (Protocol, whose
// sessions check that they are called by the rules), a client that sends raw
// frames in any shape and verifies each byte that comes back (Client), and the
// stories told with the two (Run). Lines is beside them: the plainest protocol there is, for
// what a carrier's own tests tell and measure.
package frontendtest
