// Package doctor judges whether a machine suits a broker: [Facts] in, findings
// out. It is pure; package doctor/gather and the command line, which alone may
// be a Kafka client, fill the facts in, and `ringlog doctor` prints the findings.
//
//	gather (files of the system, the ring's probe)  ──┐
//	server.Needs (what the configuration takes)      ──┼─▶ Facts ──▶ Examine ──▶ []Finding
//	command line (metadata and health of a broker)   ──┘
//
// So every finding can be told as a story with facts that no machine at hand has:
// a kernel of 2016, a clock in the past, a file system without barriers.
//
// A fact that could not be found out is its type's zero value, and a rule that
// needs it says nothing: doctor must be of use in a container that hides
// half of /proc. What is unknown and matters is a finding of its own.
package doctor
