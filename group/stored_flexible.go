package group

import (
	"encoding/binary"

	"ringlog/group/assign"
	"ringlog/meta"
)

// flexible appends the fields of Kafka's flexible messages (KIP-482).
type flexible struct{ bytes []byte }

func (f *flexible) int8(v int8)   { f.bytes = append(f.bytes, byte(v)) }
func (f *flexible) int16(v int16) { f.bytes = binary.BigEndian.AppendUint16(f.bytes, uint16(v)) }
func (f *flexible) int32(v int32) { f.bytes = binary.BigEndian.AppendUint32(f.bytes, uint32(v)) }
func (f *flexible) int64(v int64) { f.bytes = binary.BigEndian.AppendUint64(f.bytes, uint64(v)) }

// count appends the length of an array, a string or bytes, which is one more than it is: zero is null.
func (f *flexible) count(n int) { f.bytes = binary.AppendUvarint(f.bytes, uint64(n)+1) }

func (f *flexible) text(text string) {
	f.count(len(text))
	f.bytes = append(f.bytes, text...)
}

// nullable appends a string that is null when it is empty: nobody means the empty one.
func (f *flexible) nullable(text string) {
	if text == "" {
		f.bytes = append(f.bytes, 0)
		return
	}
	f.text(text)
}

func (f *flexible) texts(texts []string) {
	f.count(len(texts))
	for _, text := range texts {
		f.text(text)
	}
}

func (f *flexible) partitions(partitions assign.Partitions) {
	f.count(len(partitions))
	for _, of := range partitions {
		f.bytes = append(f.bytes, of.Topic[:]...)
		f.count(len(of.Partitions))
		for _, partition := range of.Partitions {
			f.int32(partition)
		}
		f.tags()
	}
}

// tag is a tagged field.
type tag struct {
	number uint64
	encode func(*flexible)
}

// tags ends a struct with its tagged fields, in ascending order.
func (f *flexible) tags(tags ...tag) {
	f.bytes = binary.AppendUvarint(f.bytes, uint64(len(tags)))
	for _, tag := range tags {
		var field flexible
		tag.encode(&field)
		f.bytes = binary.AppendUvarint(f.bytes, tag.number)
		f.bytes = binary.AppendUvarint(f.bytes, uint64(len(field.bytes)))
		f.bytes = append(f.bytes, field.bytes...)
	}
}

// reader reads what flexible writes. Once something is missing it has failed, and
// everything that is read after is zero. It copies what it returns.
type reader struct {
	rest   []byte
	failed bool
}

// take returns the next bytes, or as many zeroes when they are not there: of a few at most.
func (r *reader) take(n int) []byte {
	if r.failed || n > len(r.rest) {
		r.failed = true
		return zeroes[:min(n, len(zeroes))]
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

var zeroes [16]byte

func (r *reader) int8() int8   { return int8(r.take(1)[0]) }
func (r *reader) int16() int16 { return int16(binary.BigEndian.Uint16(r.take(2))) }
func (r *reader) int32() int32 { return int32(binary.BigEndian.Uint32(r.take(4))) }
func (r *reader) int64() int64 { return int64(binary.BigEndian.Uint64(r.take(8))) }

func (r *reader) uvarint() uint64 {
	value, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.failed = true
		return 0
	}
	r.rest = r.rest[n:]
	return value
}

// count returns a length, zero for null; each of so many needs elementBytesMin of what is left.
func (r *reader) count(elementBytesMin int) int {
	n := r.uvarint()
	if n == 0 {
		return 0
	}
	if n--; r.failed || n > uint64(len(r.rest)/elementBytesMin) {
		r.failed = true
		return 0
	}
	return int(n)
}

func (r *reader) text() string { return string(r.take(r.count(1))) }

// shortText reads a string behind 16 bits of length, as keys have them.
func (r *reader) shortText() string {
	n := int(r.int16())
	if n < 0 {
		r.failed = true
	}
	if r.failed {
		return ""
	}
	text := r.take(n)
	if r.failed {
		return ""
	}
	return string(text)
}

func (r *reader) texts() []string {
	var texts []string
	for range r.count(1) {
		texts = append(texts, r.text())
	}
	return texts
}

// partitionsPerTopicMax is more than any topic has: by it a damaged number is told from a partition.
const partitionsPerTopicMax = 1 << 20

func (r *reader) partitions() assign.Partitions {
	const topicBytesMin = 16 + 1 + 1
	var read []assign.TopicPartitions
	for range r.count(topicBytesMin) {
		of := assign.TopicPartitions{Topic: meta.TopicID(r.take(16))}
		for range r.count(4) {
			partition := r.int32()
			if partition < 0 || partition >= partitionsPerTopicMax {
				r.failed = true
				return nil
			}
			of.Partitions = append(of.Partitions, partition)
		}
		r.tags(nil) // Kafka 4.3 has the epochs there in which partitions were assigned (KIP-1251)
		read = append(read, of)
	}
	return assign.NewPartitions(read)
}

// tags reads the tagged fields at the end of a struct; each may be nil.
func (r *reader) tags(each func(tag uint64, field *reader)) {
	for range r.uvarint() {
		if r.failed {
			return
		}
		number, n := r.uvarint(), r.uvarint()
		if r.failed || n > uint64(len(r.rest)) {
			r.failed = true
			return
		}
		field := reader{rest: r.rest[:n]}
		r.rest = r.rest[n:]
		if each != nil {
			each(number, &field)
			r.failed = r.failed || field.failed
		}
	}
}

// subscription reads the value of a ConsumerGroupMemberMetadata.
func (r *reader) subscription() subscription {
	s := subscription{instance: r.text(), rack: r.text(), clientID: r.text(), clientHost: r.text(), names: sortedNames(r.texts()),
		regex: r.text(), rebalanceTimeoutMillis: r.int32(), assignor: r.text()}
	r.tags(func(tag uint64, field *reader) {
		if tag == 0 {
			s.classic = field.classic()
		}
	})
	return s
}

// classic reads ClassicMemberMetadata, or the byte that says it is null.
func (r *reader) classic() *classicMembership {
	if r.int8() <= 0 {
		return nil
	}
	const protocolBytesMin = 1 + 1 + 1
	m := &classicMembership{sessionTimeoutMillis: r.int32()}
	for range r.count(protocolBytesMin) {
		protocol := Protocol{Name: r.text()}
		protocol.Metadata = []byte(r.text())
		r.tags(nil)
		m.protocols = append(m.protocols, protocol)
	}
	r.tags(nil)
	if len(m.protocols) == 0 {
		r.failed = true // nobody joins without
	}
	return m
}
