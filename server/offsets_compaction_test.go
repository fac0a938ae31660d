package server

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// The topic of committed offsets is compacted: what thousands of commits leave is about one record for each offset, and a
// restart loads that and finds every offset where it was left, also those that were deleted.
func TestCompactionKeepsEveryCommittedOffset(t *testing.T) {
	const (
		groups     = 10
		partitions = 8
	)
	config := testConfig(t, t.TempDir())
	config.Broker = map[string]string{
		"offsets.topic.num.partitions": "2", "offsets.topic.segment.bytes": "65536",
		"log.cleaner.backoff.ms": "50", "log.cleaner.min.cleanable.ratio": "0.1",
	}
	s := start(t, config)
	admin := kadm.NewClient(client(t, s))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if created, err := admin.CreateTopic(ctx, partitions, 1, nil, "orders"); errors.Join(err, created.Err) != nil {
		t.Fatal(err, created.Err)
	}
	last, commits := int64(0), int64(0)
	for s.engine.Metrics().CleanDropped < 2000 { // compaction runs while commits go on
		last++
		var offsets kadm.Offsets
		for partition := range int32(partitions) {
			offsets.Add(kadm.Offset{Topic: "orders", Partition: partition, At: last*100 + int64(partition), LeaderEpoch: -1})
		}
		for n := range groups {
			if err := admin.CommitAllOffsets(ctx, fmt.Sprint("group-", n), offsets); err != nil {
				t.Fatal(err)
			}
			commits += partitions
		}
	}
	if deleted, err := admin.DeleteOffsets(ctx, "group-0", kadm.TopicsSet{"orders": {0: {}}}); errors.Join(err, deleted.Error()) != nil {
		t.Fatal(err, deleted)
	}
	stop(t, s)

	s = start(t, config)
	admin = kadm.NewClient(client(t, s))
	for n := range groups {
		fetched, err := admin.FetchOffsets(ctx, fmt.Sprint("group-", n))
		if err := errors.Join(err, fetched.Error()); err != nil {
			t.Fatal(err)
		}
		for partition := range int32(partitions) {
			got, ok := fetched.Lookup("orders", partition)
			switch gone := n == 0 && partition == 0; {
			case gone && ok:
				t.Errorf("the deleted offset of group 0 is back: %d", got.At)
			case !gone && (!ok || got.At != last*100+int64(partition)):
				t.Errorf("group %d, partition %d: %d, want %d", n, partition, got.At, last*100+int64(partition))
			}
		}
	}
	if loaded := s.broker.GroupMetrics().LoadedRecords.Load(); loaded >= commits-1000 {
		t.Errorf("%d records were loaded of %d committed: nothing is compacted", loaded, commits)
	}
}
