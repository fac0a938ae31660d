package assign

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"ringlog/meta"
)

// TopicPartitions are some partitions of one topic.
type TopicPartitions struct {
	Topic      meta.TopicID
	Partitions []int32 // ascending, each once
}

// Partitions is a set of partitions of any topics: by ascending topic id, each topic once and never
// without a partition. The empty set is nil. A set is never changed once it is made, so
// sets may be shared, and share parts.
//
// A sorted slice and not a map: a group of 12,000 members holds as many of these, most of one topic
// and one or two partitions, and compares and stores them far more often than it builds them.
type Partitions []TopicPartitions

// NewPartitions makes a set of what comes in any order, and perhaps twice. It keeps nothing of
// its argument.
func NewPartitions(unordered []TopicPartitions) Partitions {
	set := make(Partitions, 0, len(unordered))
	for _, of := range unordered {
		if len(of.Partitions) > 0 {
			set = append(set, TopicPartitions{of.Topic, slices.Clone(of.Partitions)})
		}
	}
	slices.SortStableFunc(set, compareTopics)
	merged := set[:0]
	for _, of := range set {
		if last := len(merged) - 1; last >= 0 && merged[last].Topic == of.Topic {
			merged[last].Partitions = append(merged[last].Partitions, of.Partitions...)
			continue
		}
		merged = append(merged, of)
	}
	for n := range merged {
		slices.Sort(merged[n].Partitions)
		merged[n].Partitions = slices.Compact(merged[n].Partitions)
	}
	if len(merged) == 0 {
		return nil
	}
	return merged
}

func compareTopics(a, b TopicPartitions) int { return bytes.Compare(a.Topic[:], b.Topic[:]) }

// CompareIDs orders topic ids as sets have them.
func CompareIDs(a, b meta.TopicID) int { return bytes.Compare(a[:], b[:]) }

// Of returns the partitions of one topic, which must not be changed.
func (p Partitions) Of(topic meta.TopicID) []int32 {
	at, found := slices.BinarySearchFunc(p, topic, func(of TopicPartitions, id meta.TopicID) int { return CompareIDs(of.Topic, id) })
	if !found {
		return nil
	}
	return p[at].Partitions
}

// Contains reports whether a partition is in the set.
func (p Partitions) Contains(topic meta.TopicID, partition int32) bool {
	_, found := slices.BinarySearch(p.Of(topic), partition)
	return found
}

// Count is the number of partitions.
func (p Partitions) Count() int {
	count := 0
	for n := range p {
		count += len(p[n].Partitions)
	}
	return count
}

// Equal reports whether both sets have the same partitions.
func (p Partitions) Equal(other Partitions) bool {
	return slices.EqualFunc(p, other, func(a, b TopicPartitions) bool {
		return a.Topic == b.Topic && slices.Equal(a.Partitions, b.Partitions)
	})
}

// Intersect returns what is in both sets.
func (p Partitions) Intersect(other Partitions) Partitions {
	return combine(p, other, func(inFirst, inSecond bool) bool { return inFirst && inSecond })
}

// Minus returns what is in p and not in other.
func (p Partitions) Minus(other Partitions) Partitions {
	if len(other) == 0 {
		return p
	}
	return combine(p, other, func(inFirst, inSecond bool) bool { return inFirst && !inSecond })
}

// Union returns what is in one of the sets or in both.
func (p Partitions) Union(other Partitions) Partitions {
	switch {
	case len(p) == 0:
		return other
	case len(other) == 0:
		return p
	}
	return combine(p, other, func(inFirst, inSecond bool) bool { return true })
}

// Overlaps reports whether some partition is in both sets.
func (p Partitions) Overlaps(other Partitions) bool { return len(p.Intersect(other)) > 0 }

// Within reports whether every partition of p is in other.
func (p Partitions) Within(other Partitions) bool { return len(p.Minus(other)) == 0 }

// Filter returns the partitions that keep wants.
func (p Partitions) Filter(keep func(topic meta.TopicID, partition int32) bool) Partitions {
	var kept Partitions
	for _, of := range p {
		var partitions []int32
		for _, partition := range of.Partitions {
			if keep(of.Topic, partition) {
				partitions = append(partitions, partition)
			}
		}
		if partitions != nil {
			kept = append(kept, TopicPartitions{of.Topic, partitions})
		}
	}
	return kept
}

// String lists the set as topic:[partitions], for people and tests.
func (p Partitions) String() string {
	var text strings.Builder
	for n, of := range p {
		if n > 0 {
			text.WriteByte(' ')
		}
		fmt.Fprintf(&text, "%s:%v", of.Topic, of.Partitions)
	}
	return text.String()
}

// combine walks two sets at once and keeps what the rule wants, given where it is.
func combine(first, second Partitions, keep func(inFirst, inSecond bool) bool) Partitions {
	var result Partitions
	for len(first) > 0 || len(second) > 0 {
		var a, b []int32
		var topic meta.TopicID
		order := 0
		switch {
		case len(second) == 0:
			order = -1
		case len(first) == 0:
			order = 1
		default:
			order = CompareIDs(first[0].Topic, second[0].Topic)
		}
		if order <= 0 {
			topic, a, first = first[0].Topic, first[0].Partitions, first[1:]
		}
		if order >= 0 {
			topic, b, second = second[0].Topic, second[0].Partitions, second[1:]
		}
		if kept := combineSorted(a, b, keep); kept != nil {
			result = append(result, TopicPartitions{topic, kept})
		}
	}
	return result
}

func combineSorted(a, b []int32, keep func(inFirst, inSecond bool) bool) []int32 {
	var kept []int32
	for len(a) > 0 || len(b) > 0 {
		var partition int32
		switch {
		case len(b) == 0 || len(a) > 0 && a[0] < b[0]:
			partition, a = a[0], a[1:]
			if keep(true, false) {
				kept = append(kept, partition)
			}
		case len(a) == 0 || b[0] < a[0]:
			partition, b = b[0], b[1:]
			if keep(false, true) {
				kept = append(kept, partition)
			}
		default:
			partition, a, b = a[0], a[1:], b[1:]
			if keep(true, true) {
				kept = append(kept, partition)
			}
		}
	}
	return kept
}
