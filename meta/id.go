package meta

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
)

// TopicID names one topic incarnation (KIP-516). The zero id is "no topic".
type TopicID [16]byte

// String returns the id in Kafka's form: URL-safe base64 without padding.
func (id TopicID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// MarshalText writes the id as String does, so that JSON for people has it so.
func (id TopicID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// IsZero reports whether id is "no topic".
func (id TopicID) IsZero() bool { return id == TopicID{} }

// ParseTopicID reads what String writes.
func ParseTopicID(text string) (TopicID, error) {
	var id TopicID
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != len(id) {
		return id, fmt.Errorf("meta: %q is not a topic id", text)
	}
	copy(id[:], raw)
	return id, nil
}

// LogID names one incarnation of a partition's log. It is fresh at every
// creation and never reused, so that what a deleted topic left behind is never
// taken for the data of a new topic of the same name.
type LogID [16]byte

// String returns the id as 32 hex digits, which is also its directory's name.
func (id LogID) String() string { return hex.EncodeToString(id[:]) }

// MarshalText writes the id as String does.
func (id LogID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// DrawTopicID draws a random (version 4) topic id. Like Kafka it never returns
// a reserved one, nor one whose text begins with '-', which tools would take
// for an option.
func DrawTopicID(random io.Reader) (TopicID, error) {
	for {
		var id TopicID
		if err := drawUUID(random, id[:]); err != nil {
			return TopicID{}, fmt.Errorf("meta: drawing a topic id: %w", err)
		}
		if id.String()[0] != '-' {
			return id, nil
		}
	}
}

// DrawLogID draws a random (version 4) log id.
func DrawLogID(random io.Reader) (LogID, error) {
	var id LogID
	if err := drawUUID(random, id[:]); err != nil {
		return LogID{}, fmt.Errorf("meta: drawing a log id: %w", err)
	}
	return id, nil
}

// DrawClusterID draws a cluster id in Kafka's form.
func DrawClusterID(random io.Reader) (string, error) {
	id, err := DrawTopicID(random)
	return id.String(), err
}

// drawUUID fills id with random bytes and marks it as a version 4 UUID (RFC
// 9562 section 5.4), which also keeps it clear of the reserved ids.
func drawUUID(random io.Reader, id []byte) error {
	if _, err := io.ReadFull(random, id); err != nil {
		return err
	}
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return nil
}
