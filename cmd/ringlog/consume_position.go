package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// positionKind says how a position in a topic was named.
type positionKind int

const (
	positionBeginning positionKind = iota
	positionEnd
	positionOffset // number: an offset
	positionLast   // number: that many before the end
	positionTime   // at: the first record not older
	positionNever  // beyond any record to come
)

// position is a place in every partition of a topic.
type position struct {
	kind   positionKind
	number int64
	at     time.Time
}

// parsePosition reads what --from and --until take.
func parsePosition(flag, text string) (position, error) {
	switch text {
	case "beginning":
		return position{kind: positionBeginning}, nil
	case "end":
		return position{kind: positionEnd}, nil
	}
	if number, err := strconv.ParseInt(text, 10, 64); err == nil {
		if number < 0 {
			return position{kind: positionLast, number: -number}, nil
		}
		return position{kind: positionOffset, number: number}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return position{kind: positionTime, at: time.Now().Add(-ago)}, nil
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return position{kind: positionTime, at: at}, nil
	}
	return position{}, usageErrorf("%s %q is none of beginning, end, an offset, -N, a time such as 2026-05-01T12:00:00Z, a duration such as 1h30m", flag, text)
}

// span is what is left to print of a partition: offsets next to end, end
// excluded.
type span struct {
	next, end int64
}

// resolveSpans asks the broker what two positions mean in each partition.
func resolveSpans(ctx context.Context, admin *kadm.Client, topic string, only []int32, from, until position) (map[int32]*span, error) {
	partitions, err := partitionsOf(ctx, admin, topic)
	if err != nil {
		return nil, err
	}
	for _, wanted := range only {
		if !slices.Contains(partitions, wanted) {
			return nil, noPartition(topic, wanted, partitions)
		}
	}
	if len(only) > 0 {
		partitions = only
	}
	starts, err := listed(partitions, topic)(admin.ListStartOffsets(ctx, topic))
	if err != nil {
		return nil, err
	}
	ends, err := listed(partitions, topic)(admin.ListEndOffsets(ctx, topic))
	if err != nil {
		return nil, err
	}
	spans := map[int32]*span{}
	for _, partition := range partitions {
		spans[partition] = &span{}
	}
	place := func(p position, set func(s *span, offset int64)) error {
		var times map[int32]int64
		if p.kind == positionTime {
			if times, err = listed(partitions, topic)(admin.ListOffsetsAfterMilli(ctx, p.at.UnixMilli(), topic)); err != nil {
				return err
			}
		}
		for _, partition := range partitions {
			set(spans[partition], p.offset(starts[partition], ends[partition], times[partition]))
		}
		return nil
	}
	if err := place(from, func(s *span, offset int64) { s.next = offset }); err != nil {
		return nil, err
	}
	if err := place(until, func(s *span, offset int64) { s.end = offset }); err != nil {
		return nil, err
	}
	for partition, s := range spans {
		start, end := starts[partition], ends[partition]
		if from.kind == positionOffset && (s.next < start || s.next > end) {
			holds := fmt.Sprintf("it holds %d to %d", start, end-1)
			if start == end {
				holds = "it is empty"
			}
			return nil, &failure{exitNotFound, fmt.Errorf("partition %d of topic %q has no offset %d", partition, topic, s.next),
				fmt.Sprintf("%s; the next record will be %d", holds, end)}
		}
	}
	return spans, nil
}

// offset returns the offset of a position in a partition that holds start to
// end, end excluded.
func (p position) offset(start, end, byTime int64) int64 {
	switch p.kind {
	case positionBeginning:
		return start
	case positionEnd:
		return end
	case positionOffset:
		return p.number
	case positionLast:
		return max(start, end-p.number)
	case positionTime:
		return byTime
	case positionNever:
		return math.MaxInt64
	}
	panic(fmt.Sprintf("ringlog: position of kind %d", p.kind))
}

// listed takes the answer of one of kadm's offset listings apart: the offset
// of each partition, or the first error.
func listed(partitions []int32, topic string) func(kadm.ListedOffsets, error) (map[int32]int64, error) {
	return func(offsets kadm.ListedOffsets, err error) (map[int32]int64, error) {
		if err != nil {
			return nil, fmt.Errorf("asking for offsets of %q: %w", topic, err)
		}
		found := map[int32]int64{}
		for _, partition := range partitions {
			offset, ok := offsets.Lookup(topic, partition)
			switch {
			case !ok:
				return nil, fmt.Errorf("the broker told no offset of %q, partition %d", topic, partition)
			case offset.Err != nil:
				return nil, fmt.Errorf("asking for offsets of %q, partition %d: %w", topic, partition, offset.Err)
			}
			found[partition] = offset.Offset
		}
		return found, nil
	}
}
