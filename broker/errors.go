package broker

import (
	"errors"

	"ringlog/coord"
	"ringlog/engine"
	"ringlog/replica"
)

// Errors of requests. A frontend gives each its code. Errors of packages record
// and meta pass through, wrapped.
var (
	// ErrUnknownTopic is returned when no topic has that name.
	ErrUnknownTopic = errors.New("broker: unknown topic")
	// ErrUnknownTopicID is returned when no topic has that id: it was deleted,
	// perhaps created again, or never existed.
	ErrUnknownTopicID = errors.New("broker: unknown topic id")
	// ErrUnknownPartition is returned for a partition number that the topic does not have.
	ErrUnknownPartition = errors.New("broker: unknown partition")
	// ErrNotLeader is returned when another broker leads the partition, or none.
	ErrNotLeader = errors.New("broker: not the leader of the partition")
	// ErrLogOffline is returned when the partition's log could not be opened; the
	// cause is wrapped beside it.
	ErrLogOffline = errors.New("broker: the partition's log is offline")
	// ErrFencedLeaderEpoch is returned when the client knows an older leader
	// epoch than the broker (KIP-320).
	ErrFencedLeaderEpoch = errors.New("broker: fenced leader epoch")
	// ErrUnknownLeaderEpoch is returned when the client knows a newer leader
	// epoch than the broker (KIP-320).
	ErrUnknownLeaderEpoch = errors.New("broker: unknown leader epoch")
	// ErrBatchTooLarge is returned for a batch above the topic's max.message.bytes.
	ErrBatchTooLarge = errors.New("broker: batch larger than max.message.bytes")
	// ErrNotEnoughReplicas is returned for acks=all when fewer replicas are in
	// sync than min.insync.replicas.
	ErrNotEnoughReplicas = errors.New("broker: not enough in-sync replicas")
	// ErrInternalTopic is returned when a client produces to a topic that the broker writes itself, creates it or changes its partitions.
	ErrInternalTopic = errors.New("broker: topic is written by the broker alone")
	// ErrTransactional is returned for a batch that belongs to a transaction.
	ErrTransactional = errors.New("broker: transactions are not served")
	// ErrCheckFailed is returned for what was not checked because of a fault of ours.
	ErrCheckFailed = errors.New("broker: the check of a batch failed")
	// ErrUnsupportedTimestamp is returned by ListOffset for a negative timestamp
	// that has no meaning.
	ErrUnsupportedTimestamp = errors.New("broker: timestamp has no meaning")
	// ErrUnknownBroker is returned when another broker's configuration is asked for.
	ErrUnknownBroker = errors.New("broker: not this broker")
	// ErrControlPlane is returned when the controller did not take a command, or
	// its outcome is not known: no leader, no time, no quorum. The cause is
	// wrapped beside it; the same request may succeed later.
	ErrControlPlane = errors.New("broker: the control plane does not answer")
	// ErrNoProducerIDs is returned when no producer id is to be had now.
	ErrNoProducerIDs = errors.New("broker: no producer id is to be had now")
	// ErrClosed is returned when the broker is shutting down.
	ErrClosed = errors.New("broker: closed")
)

// Errors of the layers below that frontends have to tell apart and may not
// import for.
var (
	ErrOffsetOutOfRange     = engine.ErrOffsetOutOfRange
	ErrStorage              = engine.ErrPoisoned
	ErrNoSpace              = engine.ErrNoSpace
	ErrCorruptLog           = engine.ErrCorrupt
	ErrUnreadable           = engine.ErrUnreadable
	ErrLogClosed            = engine.ErrClosed
	ErrUnknownLog           = engine.ErrUnknownLog
	ErrOutOfOrderSequence   = replica.ErrOutOfOrderSequence
	ErrDuplicateSequence    = replica.ErrDuplicateSequence
	ErrInvalidProducerEpoch = replica.ErrInvalidProducerEpoch
	ErrReplicaNotLeader     = replica.ErrNotLeader
	ErrTruncated            = replica.ErrTruncated

	ErrNotCoordinator         = coord.ErrNotCoordinator
	ErrCoordinatorLoading     = coord.ErrLoading
	ErrCoordinatorUnavailable = coord.ErrUnavailable
)
