package raftctl

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

const (
	// VotersMax is how large a quorum may be: five survive the loss of two.
	VotersMax = 5
	// CommandBytesMax bounds one encoded command; a CreateTopics at its limit of partitions is
	// a twentieth of it.
	CommandBytesMax = 8 << 20
	// proposalsMax bounds the commands that are proposed and not yet answered.
	proposalsMax = 1024
)

// Options configures a Controller.
type Options struct {
	// NodeID is this broker's id, 0 or more.
	NodeID int32
	// ClusterID is the cluster that the data must belong to.
	ClusterID string
	// Create makes the file, which must not be there; without it the file must
	// be there.
	Create bool
	// Voters are the quorum that Create starts with, this broker among them; the default is
	// this broker alone.
	Voters []int32
	// Transport sends to the other voters; may be nil for a quorum of one.
	Transport Transport
	// TickInterval is the unit of raft's time: a leader is missed after ten, and heartbeats
	// come every two. The default, 100 ms, gives Kafka's
	// controller.quorum.election.timeout.ms of 1 s.
	TickInterval time.Duration
	// SnapshotLogBytes is how much log is kept before a snapshot replaces it; the
	// default is 4 MiB. A large image waits for twice its own size.
	SnapshotLogBytes int64
	// Logger gets what operators should know; the default discards it.
	Logger *slog.Logger
}

// withDefaults returns o with its zero values replaced, or all that is wrong with it.
func (o Options) withDefaults() (Options, error) {
	if len(o.Voters) == 0 {
		o.Voters = []int32{o.NodeID}
	}
	if o.TickInterval == 0 {
		o.TickInterval = 100 * time.Millisecond
	}
	if o.SnapshotLogBytes == 0 {
		o.SnapshotLogBytes = 4 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("raftctl: "+format, args...)) }
	if o.NodeID < 0 {
		fault("node id %d is negative", o.NodeID)
	}
	if o.ClusterID == "" {
		fault("the cluster id is empty")
	}
	if len(o.Voters) > VotersMax {
		fault("%d voters, more than %d", len(o.Voters), VotersMax)
	}
	o.Voters = slices.Sorted(slices.Values(o.Voters))
	if len(slices.Compact(slices.Clone(o.Voters))) != len(o.Voters) || o.Voters[0] < 0 {
		fault("voters %v: each needs an id of its own, 0 or more", o.Voters)
	}
	if !slices.Contains(o.Voters, o.NodeID) {
		fault("broker %d is not among the voters %v", o.NodeID, o.Voters)
	}
	if len(o.Voters) > 1 && o.Transport == nil {
		fault("a quorum of %d needs a transport", len(o.Voters))
	}
	if o.TickInterval < 0 || o.SnapshotLogBytes < 0 {
		fault("tick interval and snapshot size must not be negative")
	}
	return o, errors.Join(faults...)
}
