package kafka

import (
	"context"
	"errors"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"ringlog/broker"
	"ringlog/frontend/kafka/fetchsession"
	"ringlog/group"
	"ringlog/meta"
	"ringlog/record"
)

// Errors of this package that become codes.
var (
	errInvalidRequest      = errors.New("kafka: invalid request") // it contradicts itself
	errInvalidRequiredAcks = errors.New("kafka: acks has to be -1, 0 or 1")
	errUnsupportedVersion  = errors.New("kafka: not supported in this version of the request")
	errReplicaFetch        = errors.New("kafka: replicas fetch through the links between brokers")
	errZstdFetch           = errors.New("kafka: batches are compressed with zstd, which needs Fetch version 10")
	errFetchSessionEpoch   = errors.New("kafka: another request of the fetch session has begun meanwhile")
	errOtherBroker         = errors.New("kafka: the client looks for another broker or cluster")
	errTopicDeletionOff    = errors.New("kafka: delete.topic.enable is false")
)

// codes is the one place where errors become Kafka's codes. The first row that
// matches wins, so narrow errors stand before those that they wrap.
var codes = []struct {
	err  error
	code *kerr.Error
}{
	// A producer that asks for its id takes most codes for fatal, but waits while
	// a coordinator is said to load; that is what Kafka's broker says, too.
	{broker.ErrNoProducerIDs, kerr.CoordinatorLoadInProgress},

	// Groups. What a coordinator waits for may have failed for reasons that have codes of their own, which a
	// client would not expect here.
	{broker.ErrNotCoordinator, kerr.NotCoordinator},
	{broker.ErrCoordinatorLoading, kerr.CoordinatorLoadInProgress},
	{broker.ErrCoordinatorUnavailable, kerr.CoordinatorNotAvailable},
	{group.ErrInvalidGroupID, kerr.InvalidGroupID},
	{group.ErrGroupNotFound, kerr.GroupIDNotFound},
	{group.ErrNonEmptyGroup, kerr.NonEmptyGroup},
	{group.ErrGroupFull, kerr.GroupMaxSizeReached},
	{group.ErrGroupSubscribed, kerr.GroupSubscribedToTopic},
	{group.ErrUnknownMember, kerr.UnknownMemberID},
	{group.ErrMemberIDRequired, kerr.MemberIDRequired},
	{group.ErrFencedInstance, kerr.FencedInstanceID},
	{group.ErrUnreleasedInstance, kerr.UnreleasedInstanceID},
	{group.ErrIllegalGeneration, kerr.IllegalGeneration},
	{group.ErrStaleMemberEpoch, kerr.StaleMemberEpoch},
	{group.ErrFencedMemberEpoch, kerr.FencedMemberEpoch},
	{group.ErrRebalanceInProgress, kerr.RebalanceInProgress},
	{group.ErrInconsistentProtocol, kerr.InconsistentGroupProtocol},
	{group.ErrInvalidSessionTimeout, kerr.InvalidSessionTimeout},
	{group.ErrGroupNotStored, kerr.UnknownServerError}, // as in Kafka: too large for its log
	{group.ErrUnsupportedAssignor, kerr.UnsupportedAssignor},
	{group.ErrInvalidRegularExpression, kerr.InvalidRegularExpression},
	{group.ErrInvalidRequest, kerr.InvalidRequest},
	{group.ErrUnsupportedVersion, kerr.UnsupportedVersion},
	{group.ErrOffsetMetadataTooLarge, kerr.OffsetMetadataTooLarge},
	{group.ErrCommitTooLarge, kerr.InvalidCommitOffsetSize},
	{group.ErrUnknownTopic, kerr.UnknownTopicOrPartition},

	// The partition and who leads it.
	{broker.ErrUnknownTopicID, kerr.UnknownTopicID},
	{broker.ErrUnknownTopic, kerr.UnknownTopicOrPartition},
	{broker.ErrUnknownPartition, kerr.UnknownTopicOrPartition},
	{broker.ErrLogOffline, kerr.KafkaStorageError},
	{broker.ErrNotLeader, kerr.NotLeaderForPartition},
	{broker.ErrReplicaNotLeader, kerr.NotLeaderForPartition},
	{broker.ErrFencedLeaderEpoch, kerr.FencedLeaderEpoch},
	{broker.ErrUnknownLeaderEpoch, kerr.UnknownLeaderEpoch},
	// A log that closes while a request waits was deleted or is shutting
	// down: the client finds out who has the partition now.
	{broker.ErrLogClosed, kerr.NotLeaderForPartition},
	{broker.ErrUnknownLog, kerr.NotLeaderForPartition},
	{broker.ErrTruncated, kerr.NotLeaderForPartition},
	{broker.ErrClosed, kerr.NotLeaderForPartition},

	// Produce.
	{errInvalidRequiredAcks, kerr.InvalidRequiredAcks},
	{broker.ErrBatchTooLarge, kerr.MessageTooLarge},
	{broker.ErrNotEnoughReplicas, kerr.NotEnoughReplicas},
	{broker.ErrInternalTopic, kerr.InvalidTopicException},
	{broker.ErrCheckFailed, kerr.UnknownServerError},
	{broker.ErrTransactional, kerr.InvalidTxnState}, // as in Kafka: no transaction is open
	{broker.ErrOutOfOrderSequence, kerr.OutOfOrderSequenceNumber},
	{broker.ErrDuplicateSequence, kerr.DuplicateSequenceNumber},
	{broker.ErrInvalidProducerEpoch, kerr.InvalidProducerEpoch},
	{record.ErrInvalidTimestamp, kerr.InvalidTimestamp},
	{record.ErrUnsupportedCompression, kerr.UnsupportedCompressionType},
	{record.ErrDecompressedTooLarge, kerr.MessageTooLarge},
	{record.ErrUnsupportedMagic, kerr.InvalidRecord},
	{record.ErrInvalidRecord, kerr.InvalidRecord},
	{record.ErrCorrupt, kerr.CorruptMessage},

	// Storage. NO_SPACE has no code; this one makes clients try again.
	{broker.ErrNoSpace, kerr.KafkaStorageError},
	{broker.ErrCorruptLog, kerr.CorruptMessage},
	{broker.ErrStorage, kerr.KafkaStorageError},
	{broker.ErrUnreadable, kerr.KafkaStorageError},

	// Fetch and offsets.
	{broker.ErrOffsetOutOfRange, kerr.OffsetOutOfRange},
	{broker.ErrUnsupportedTimestamp, kerr.UnsupportedVersion},
	{errReplicaFetch, kerr.TopicAuthorizationFailed},
	{errZstdFetch, kerr.UnsupportedCompressionType},
	{fetchsession.ErrNotFound, kerr.FetchSessionIDNotFound},
	{fetchsession.ErrEpoch, kerr.InvalidFetchSessionEpoch},
	{errFetchSessionEpoch, kerr.InvalidFetchSessionEpoch},
	{fetchsession.ErrTopicIDs, kerr.FetchSessionTopicIDError},

	// Topics and configurations. A fault of a request wins over what it is about: see ofScope.
	{errInvalidRequest, kerr.InvalidRequest},
	{meta.ErrTopicExists, kerr.TopicAlreadyExists},
	{meta.ErrUnknownTopic, kerr.UnknownTopicOrPartition},
	{meta.ErrInvalidTopicName, kerr.InvalidTopicException},
	{meta.ErrInvalidPartitions, kerr.InvalidPartitions},
	{meta.ErrTooManyPartitions, kerr.PolicyViolation},
	{meta.ErrInvalidReplicationFactor, kerr.InvalidReplicationFactor},
	{meta.ErrInvalidReplicaAssignment, kerr.InvalidReplicaAssignment},
	{meta.ErrInvalidConfig, kerr.InvalidConfig},
	{meta.ErrInvalidRequest, kerr.InvalidRequest},
	{broker.ErrRecordsKept, kerr.PolicyViolation},
	{errTopicDeletionOff, kerr.TopicDeletionDisabled},
	{broker.ErrUnknownBroker, kerr.InvalidRequest},
	{meta.ErrUnknownBroker, kerr.BrokerIDNotRegistered},

	{errUnsupportedVersion, kerr.UnsupportedVersion},
	{errOtherBroker, kerr.RebootstrapRequired},
	{errSecurityDisabled, kerr.SecurityDisabled},
	{errNoQuorum, kerr.UnsupportedVersion},
	{errElectionNotNeeded, kerr.ElectionNotNeeded},
	{errPreferredNotAvailable, kerr.PreferredLeaderNotAvailable},
	{errEligibleLeadersMissing, kerr.EligibleLeadersNotAvailable},

	// Who ran out of time hears that, not who was being asked.
	{context.DeadlineExceeded, kerr.RequestTimedOut},
	{context.Canceled, kerr.RequestTimedOut},
	{broker.ErrControlPlane, kerr.NotController},
}

// code returns the code of an error; 0 for nil.
func code(err error) int16 {
	if err == nil {
		return 0
	}
	for i := range codes {
		if errors.Is(err, codes[i].err) {
			return codes[i].code.Code
		}
	}
	return kerr.UnknownServerError.Code
}

// messageBytesMax bounds the text that goes out with a code.
const messageBytesMax = 1024

// message is the text that goes out with an error: what happened, without the
// name of the package that noticed.
func message(err error) string {
	text := err.Error()
	if before, after, found := strings.Cut(text, ": "); found && !strings.Contains(before, " ") {
		text = after
	}
	if len(text) > messageBytesMax {
		text = text[:messageBytesMax]
	}
	return text
}

// answerTo returns code and text of an error for a response that has both, and
// counts the error. The text is nil without an error.
func (c *call) answerTo(err error) (int16, *string) {
	if err == nil {
		return 0, nil
	}
	text := message(err)
	return c.failed(err), &text
}

// failed returns the code of an error and counts it; 0 for nil.
func (c *call) failed(err error) int16 {
	number := code(err)
	if number != 0 {
		c.session.protocol.countError(int16(c.api.key), number, err)
	}
	return number
}

// countError counts an error that was answered. One without a code of its own is a
// gap in the table, or a fault of ours, and is logged.
func (p *Protocol) countError(key, number int16, err error) {
	p.metrics.Errors[key].Add(1)
	if number == kerr.UnknownServerError.Code {
		p.log.Error("request failed for a reason that Kafka has no code for", "key", key, "error", err)
	}
}
