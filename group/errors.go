package group

import "errors"

// Errors that answers carry. Every one is for the client; none leaves the machine in doubt.
var (
	// ErrRecord is returned by Replay when a record of the log cannot be read.
	ErrRecord = errors.New("group: a record of the log cannot be read")
	// ErrInvalidGroupID is returned when a group id is empty where it must not be.
	ErrInvalidGroupID = errors.New("group: the group id is not valid")
	// ErrGroupNotFound is returned when there is no group of that id.
	ErrGroupNotFound = errors.New("group: there is no group of that id")
	// ErrNonEmptyGroup is returned when a group has members and the request needs it empty.
	ErrNonEmptyGroup = errors.New("group: the group has members")
	// ErrGroupFull is returned when a group has group.max.size members.
	ErrGroupFull = errors.New("group: the group has as many members as group.max.size allows")
	// ErrGroupSubscribed is returned when offsets of a topic are to be deleted while members are subscribed to it.
	ErrGroupSubscribed = errors.New("group: members are subscribed to the topic")
	// ErrUnknownMember is returned when the group has no member of that id.
	ErrUnknownMember = errors.New("group: there is no member of that id")
	// ErrMemberIDRequired is returned when a member must join again with the id it is given (KIP-394).
	ErrMemberIDRequired = errors.New("group: the member has to join with the id it was given")
	// ErrFencedInstance is returned when another member has taken over the group instance id (KIP-345).
	ErrFencedInstance = errors.New("group: another member has taken over the instance id")
	// ErrUnreleasedInstance is returned when the instance id still belongs to a member (KIP-848).
	ErrUnreleasedInstance = errors.New("group: the instance id belongs to another member")
	// ErrIllegalGeneration is returned when a request is of another generation than the group's.
	ErrIllegalGeneration = errors.New("group: the generation is not the group's")
	// ErrStaleMemberEpoch is returned when a request is of an older epoch than the member's (KIP-848).
	ErrStaleMemberEpoch = errors.New("group: the member epoch is older than the member's")
	// ErrFencedMemberEpoch is returned when a member has to join anew (KIP-848).
	ErrFencedMemberEpoch = errors.New("group: the member was fenced and has to join anew")
	// ErrRebalanceInProgress is returned when the members have to join again.
	ErrRebalanceInProgress = errors.New("group: a rebalance is in progress")
	// ErrInconsistentProtocol is returned when a member's protocols do not go with the group's.
	ErrInconsistentProtocol = errors.New("group: the member's protocols are not those of the group")
	// ErrInvalidSessionTimeout is returned when a session timeout is outside what the broker allows.
	ErrInvalidSessionTimeout = errors.New("group: the session timeout is outside group.min.session.timeout.ms and group.max.session.timeout.ms")
	// ErrGroupNotStored is returned when a group with all its members' metadata is larger than a record may be.
	ErrGroupNotStored = errors.New("group: the group is too large to be stored")
	// ErrUnsupportedAssignor is returned when a member asks for an assignor that is not there (KIP-848).
	ErrUnsupportedAssignor = errors.New("group: there is no assignor of that name")
	// ErrInvalidRegularExpression is returned when a member's subscription is no regular expression (KIP-848).
	ErrInvalidRegularExpression = errors.New("group: the subscription is not a regular expression")
	// ErrInvalidRequest is returned when the fields of a request contradict each other.
	ErrInvalidRequest = errors.New("group: the request contradicts itself")
	// ErrOffsetMetadataTooLarge is returned when a commit's metadata is longer than offset.metadata.max.bytes.
	ErrOffsetMetadataTooLarge = errors.New("group: the commit's metadata is longer than offset.metadata.max.bytes")
	// ErrCommitTooLarge is returned when the records of one commit would be larger than the log takes at once.
	ErrCommitTooLarge = errors.New("group: the offsets of one commit are too many, or their names too long")
	// ErrUnknownTopic is returned when there is no such topic.
	ErrUnknownTopic = errors.New("group: there is no such topic or partition")
	// ErrUnsupportedVersion is returned when a member uses a request of a version that cannot say what its group needs (KIP-848).
	ErrUnsupportedVersion = errors.New("group: the request is too old for the group's protocol")
)
