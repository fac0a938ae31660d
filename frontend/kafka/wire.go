package kafka

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"

	"ringlog/broker"
	"ringlog/frontend"
	"ringlog/meta"
)

// wire reads a body by hand: a cursor with a sticky error, checked once at the
// end. Nothing it returns is copied, and counts are not believed: callers append
// as elements are read, and stop when the cursor fails.
type wire struct {
	kbin.Reader
	flexible bool
	err      error // what is wrong, when it is more than missing bytes
}

// fail stops the cursor.
func (b *wire) fail(err error) {
	if b.err == nil {
		b.err = err
	}
	b.Src = nil
	b.Span(1)
}

// arrayLen reads the length of an array; 0 for null.
func (b *wire) arrayLen() int {
	var count int32
	if b.flexible {
		count = b.CompactArrayLen()
	} else {
		count = b.ArrayLen()
	}
	if int64(count) > int64(len(b.Src)) { // every element takes a byte at least
		b.fail(fmt.Errorf("%w: an array of %d elements in %d bytes", frontend.ErrMalformed, count, len(b.Src)))
		return 0
	}
	return int(count)
}

// length reads the length of a string; -1 for null.
func (b *wire) stringLen() int {
	if b.flexible {
		return int(b.Uvarint()) - 1
	}
	return int(b.Int16())
}

// string reads a string that must not be null.
func (b *wire) string() []byte {
	size := b.stringLen()
	if size < 0 {
		if b.Ok() {
			b.fail(fmt.Errorf("%w: null where a string belongs", frontend.ErrMalformed))
		}
		return nil
	}
	return b.Span(size)
}

// hasNullableString passes over a string and reports whether it was not null.
func (b *wire) hasNullableString() bool {
	size := b.stringLen()
	if size < 0 {
		return false
	}
	b.Span(size)
	return true
}

// nullableBytes reads bytes; nil for null.
func (b *wire) nullableBytes() []byte {
	var size int
	if b.flexible {
		size = int(b.Uvarint()) - 1
	} else {
		size = int(b.Int32())
	}
	if size < 0 {
		return nil
	}
	return b.Span(size)
}

// tags passes over the tagged fields that end a structure of a flexible version.
func (b *wire) tags() {
	if !b.flexible || !b.Ok() {
		return
	}
	if err := skipTags(&b.Reader); err != nil {
		b.fail(err)
	}
}

// finish returns what was wrong, bytes left over included.
func (b *wire) finish(api string) error {
	if b.err != nil {
		return fmt.Errorf("%s: %w", api, b.err)
	}
	if !b.Ok() {
		return fmt.Errorf("%w: %s request is cut short", frontend.ErrMalformed, api)
	}
	if len(b.Src) > 0 {
		return fmt.Errorf("%w: %d bytes follow a %s request", frontend.ErrMalformed, len(b.Src), api)
	}
	return nil
}

func appendArrayLen(dst []byte, count int, flexible bool) []byte {
	if flexible {
		return kbin.AppendCompactArrayLen(dst, count)
	}
	return kbin.AppendArrayLen(dst, count)
}

func appendString(dst []byte, text string, flexible bool) []byte {
	if flexible {
		return kbin.AppendCompactString(dst, text)
	}
	return kbin.AppendString(dst, text)
}

func appendNullableString(dst []byte, text *string, flexible bool) []byte {
	if flexible {
		return kbin.AppendCompactNullableString(dst, text)
	}
	return kbin.AppendNullableString(dst, text)
}

// appendBytesLen appends the length of bytes that follow.
func appendBytesLen(dst []byte, size int, flexible bool) []byte {
	if flexible {
		return kbin.AppendUvarint(dst, uint32(size)+1)
	}
	return kbin.AppendInt32(dst, int32(size))
}

func appendNoTags(dst []byte, flexible bool) []byte {
	if flexible {
		return append(dst, 0)
	}
	return dst
}

// currentLeaderBytes is the size of a leader id and epoch with an empty tag section.
const currentLeaderBytes = 4 + 4 + 1

// appendCurrentLeader appends who leads a partition as a tagged field (KIP-951); -1,
// -1 when it is not known.
func appendCurrentLeader(dst []byte, tag uint32, topic *broker.Topic, partition int32) []byte {
	leader, epoch := int32(-1), int32(-1)
	if topic != nil {
		if p, ok := topic.Topic.Partition(partition); ok {
			leader, epoch = p.Leader, p.LeaderEpoch
		}
	}
	dst = kbin.AppendUvarint(dst, tag)
	dst = kbin.AppendUvarint(dst, currentLeaderBytes)
	dst = kbin.AppendInt32(dst, leader)
	dst = kbin.AppendInt32(dst, epoch)
	return append(dst, 0)
}

// leadersNamed collects the brokers that an answer names as current leaders, so
// that clients can connect to them without asking for metadata (KIP-951).
type leadersNamed struct {
	image   *meta.Image
	brokers []*meta.Broker
}

func (l *leadersNamed) add(topic *broker.Topic, partition int32) {
	if topic == nil {
		return
	}
	p, ok := topic.Topic.Partition(partition)
	if !ok {
		return
	}
	leader, ok := l.image.Broker(p.Leader)
	if !ok {
		return
	}
	for _, named := range l.brokers {
		if named == leader {
			return
		}
	}
	l.brokers = append(l.brokers, leader)
}

// appendTags appends the tag section that ends the answer: tag 0 has the brokers.
func (l *leadersNamed) appendTags(dst []byte) []byte {
	if len(l.brokers) == 0 {
		return append(dst, 0)
	}
	field := kbin.AppendCompactArrayLen(nil, len(l.brokers))
	for _, b := range l.brokers {
		field = kbin.AppendInt32(field, b.ID)
		field = kbin.AppendCompactString(field, b.Host)
		field = kbin.AppendInt32(field, b.Port)
		field = kbin.AppendCompactNullableString(field, b.Rack)
		field = append(field, 0)
	}
	dst = kbin.AppendUvarint(dst, 1)
	dst = kbin.AppendUvarint(dst, 0)
	dst = kbin.AppendUvarint(dst, uint32(len(field)))
	return append(dst, field...)
}
