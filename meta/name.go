package meta

import (
	"fmt"
	"strings"
)

// TopicNameBytesMax is the longest topic name: with "-" and a partition number
// behind it, it still fits in a file name of 255 bytes (Kafka's rule; our own
// directories are named by log id).
const TopicNameBytesMax = 249

// CheckTopicName returns an ErrInvalidTopicName that says what is wrong with
// name, or nil.
func CheckTopicName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty", ErrInvalidTopicName)
	case name == "." || name == "..":
		return fmt.Errorf("%w: %q is not allowed", ErrInvalidTopicName, name)
	case len(name) > TopicNameBytesMax:
		return fmt.Errorf("%w: it is %d bytes long, longer than %d; it begins with %q", ErrInvalidTopicName, len(name), TopicNameBytesMax, name[:32])
	}
	for i := 0; i < len(name); i++ {
		if !topicNameByte(name[i]) {
			return fmt.Errorf("%w: %q has a character other than ASCII letters and digits, '.', '_' and '-'", ErrInvalidTopicName, name)
		}
	}
	return nil
}

func topicNameByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '.' || b == '_' || b == '-'
}

// collisionName is what two names have in common when they collide: metric
// names of many systems cannot hold '.', so that "a.b" and "a_b" would be one.
func collisionName(name string) string { return strings.ReplaceAll(name, ".", "_") }

// OffsetsTopic is the internal topic of committed offsets and of the metadata of consumer groups, by Kafka's name.
const OffsetsTopic = "__consumer_offsets"

// InternalTopicName reports whether a topic of that name is written by the broker itself, and made
// by it alone.
func InternalTopicName(name string) bool { return name == OffsetsTopic }
