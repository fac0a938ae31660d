package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/lag"
)

// lagFetchesMax is how many records are fetched at a time for their timestamps.
const lagFetchesMax = 8

// lagPlace is a group in a partition.
type lagPlace struct {
	group, topic string
	partition    int32
}

// lagSeen is what was seen there, or why nothing was. It keeps the commit either way.
type lagSeen struct {
	observation lag.Observation
	err         error
}

type lagSample map[lagPlace]*lagSeen

// lagSampler asks any Kafka for all that package lag reckons with. It belongs to one goroutine.
type lagSampler struct {
	client *kgo.Client
	admin  *kadm.Client
	groups []string // none is all

	// timestamps are those that the sample before needed. Records do not change, so what stands still costs one fetch in all.
	timestamps map[lagRecord]time.Time
}

// lagRecord is a record whose timestamp matters: the first from an offset on.
type lagRecord struct {
	topic     kadm.TopicID
	partition int32
	offset    int64
}

// sample looks once.
func (s *lagSampler) sample(ctx context.Context) (lagSample, error) {
	listed, err := listedGroups(ctx, s.admin, s.groups)
	if err != nil || len(listed) == 0 {
		return lagSample{}, err
	}
	names := make([]string, len(listed))
	for i, group := range listed {
		names[i] = group.Group
	}
	sample, topics := lagSample{}, kadm.TopicsSet{}
	for group, response := range s.admin.FetchManyOffsets(ctx, names...) {
		if response.Err != nil {
			return nil, groupFailure(group, response.Err)
		}
		response.Fetched.Each(func(commit kadm.OffsetResponse) {
			if commit.At >= 0 || commit.Err != nil {
				sample[lagPlace{group, commit.Topic, commit.Partition}] = &lagSeen{lag.Observation{Committed: commit.At}, commit.Err}
				topics.Add(commit.Topic, commit.Partition)
			}
		})
	}
	if len(sample) == 0 {
		return sample, nil
	}
	if err := s.takeBounds(ctx, sample, topics); err != nil {
		return nil, err
	}
	details, err := s.admin.ListTopicsWithInternal(ctx, topics.Topics()...)
	if err != nil {
		return nil, fmt.Errorf("asking for topics: %w", err)
	}
	s.takeRetention(ctx, sample, topics, details)
	s.takeTimestamps(ctx, sample, details)
	return sample, ctx.Err()
}

// takeBounds notes where the logs start and end. The ends are asked for after the commits, so that nobody is ahead of a
// log that he reads.
func (s *lagSampler) takeBounds(ctx context.Context, sample lagSample, topics kadm.TopicsSet) error {
	starts, err := s.admin.ListStartOffsets(ctx, topics.Topics()...)
	if err != nil {
		return fmt.Errorf("asking where logs start: %w", err)
	}
	ends, err := s.admin.ListEndOffsets(ctx, topics.Topics()...)
	if err != nil {
		return fmt.Errorf("asking where logs end: %w", err)
	}
	at := time.Now()
	for place, seen := range sample {
		seen.observation.At = at
		start, hasStart := starts.Lookup(place.topic, place.partition)
		end, hasEnd := ends.Lookup(place.topic, place.partition)
		if !hasStart || !hasEnd || start.Err != nil || end.Err != nil {
			seen.err = cmp.Or(seen.err, start.Err, end.Err, errors.New("the partition is not there"))
			continue
		}
		seen.observation.Start, seen.observation.End = start.Offset, end.Offset
	}
	return nil
}

// takeRetention notes how long and how much logs keep, and what they hold. Who may not ask that still has the rest.
func (s *lagSampler) takeRetention(ctx context.Context, sample lagSample, topics kadm.TopicsSet, details kadm.TopicDetails) {
	configs, _ := s.admin.DescribeTopicConfigs(ctx, topics.Topics()...)
	limits := map[string]lag.Observation{}
	for _, resource := range configs {
		limits[resource.Name] = retentionOf(resource)
	}
	directories, _ := s.admin.DescribeAllLogDirs(ctx, topics)
	for place, seen := range sample {
		limit := limits[place.topic]
		seen.observation.Retention, seen.observation.RetentionBytes = limit.Retention, limit.RetentionBytes
		leader := details[place.topic].Partitions[place.partition].Leader
		if log, ok := directories[leader].LookupPartition(place.topic, place.partition); ok {
			seen.observation.LogBytes = log.Size
		}
	}
}

// retentionOf reads a topic's limits. Where only compaction deletes they do not hold.
func retentionOf(resource kadm.ResourceConfig) (limits lag.Observation) {
	values := map[string]string{"cleanup.policy": "delete"}
	for _, config := range resource.Configs {
		if config.Value != nil {
			values[config.Key] = *config.Value
		}
	}
	if resource.Err != nil || !strings.Contains(values["cleanup.policy"], "delete") {
		return limits
	}
	if milliseconds, err := strconv.ParseInt(values["retention.ms"], 10, 64); err == nil && milliseconds < lag.Never.Milliseconds() {
		limits.Retention = time.Duration(milliseconds) * time.Millisecond
	}
	if bytes, err := strconv.ParseInt(values["retention.bytes"], 10, 64); err == nil {
		limits.RetentionBytes = bytes
	}
	return limits
}

// takeTimestamps fetches the record that comes next wherever there is one, a few at a time. What fails leaves the
// seconds unknown.
func (s *lagSampler) takeTimestamps(ctx context.Context, sample lagSample, details kadm.TopicDetails) {
	wanted := map[lagRecord][]*lag.Observation{}
	fetched := map[lagRecord]time.Time{}
	var fetching sync.WaitGroup
	var mu sync.Mutex // guards fetched
	room := make(chan struct{}, lagFetchesMax)
	for place, seen := range sample {
		o := &seen.observation
		record := lagRecord{details[place.topic].ID, place.partition, max(o.Committed, o.Start)}
		if seen.err != nil || record.offset >= o.End {
			continue
		}
		wanted[record] = append(wanted[record], o)
		if len(wanted[record]) > 1 {
			continue // another group stands there too
		}
		mu.Lock()
		timestamp, ok := s.timestamps[record]
		if ok {
			fetched[record] = timestamp
		}
		mu.Unlock()
		if ok {
			continue
		}
		room <- struct{}{}
		fetching.Go(func() {
			defer func() { <-room }()
			leader := details[place.topic].Partitions[place.partition].Leader
			if timestamp, err := fetchTimestamp(ctx, s.client.Broker(int(leader)), place.topic, record); err == nil {
				mu.Lock()
				fetched[record] = timestamp
				mu.Unlock()
			}
		})
	}
	fetching.Wait()
	for record, observations := range wanted {
		for _, o := range observations {
			o.NextTimestamp = fetched[record]
		}
	}
	s.timestamps = fetched
}

// fetchTimestamp asks a leader for one batch and returns the timestamp of its first record from the offset on.
// A single byte is asked for: a broker sends the first batch whole, whatever its size (KIP-74).
func fetchTimestamp(ctx context.Context, leader *kgo.Broker, topic string, record lagRecord) (time.Time, error) {
	partition := kmsg.NewFetchRequestTopicPartition()
	partition.Partition, partition.FetchOffset, partition.PartitionMaxBytes = record.partition, record.offset, 1
	asked := kmsg.NewFetchRequestTopic()
	asked.Topic, asked.TopicID = topic, record.topic
	asked.Partitions = append(asked.Partitions, partition)
	request := kmsg.NewPtrFetchRequest()
	request.MaxBytes = 1
	request.Topics = append(request.Topics, asked)
	response, err := leader.RetriableRequest(ctx, request)
	if err != nil {
		return time.Time{}, err
	}
	answer := response.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		return time.Time{}, err
	}
	if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
		return time.Time{}, errors.New("the answer is not for the partition that was asked for")
	}
	options := kgo.ProcessFetchPartitionOpts{KeepControlRecords: true, Offset: record.offset, Topic: topic, Partition: record.partition}
	batch, _ := kgo.ProcessFetchPartition(options, &answer.Topics[0].Partitions[0], kgo.DefaultDecompressor(), nil)
	switch {
	case batch.Err != nil:
		return time.Time{}, batch.Err
	case len(batch.Records) == 0:
		return time.Time{}, errors.New("there is no record")
	}
	return batch.Records[0].Timestamp, nil
}
