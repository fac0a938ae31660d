package broker_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ringlog/broker"
	"ringlog/broker/brokertest"
	"ringlog/buffer"
	"ringlog/engine"
	"ringlog/engine/disk"
	"ringlog/engine/disk/backend"
	"ringlog/group"
	"ringlog/meta"
)

// offsetsInPlay is how many committed offsets there are: 24,000 partitions read by four applications, each of
// which commits every 5 s, are 19,200 commits a second.
const offsetsInPlay = 96_000

// BenchmarkCommits commits offsets through the coordinators to a real disk, each one durable when it is answered. An op is
// one offset; commits/s is what counts. The axis is how many offsets a request carries: a consumer of one partition has one, and
// most have some.
//
//	go test ./broker -run - -bench Commits -benchtime 5s
func BenchmarkCommits(b *testing.B) {
	for _, perRequest := range []int{1, 8} {
		b.Run(fmt.Sprintf("offsets=%d", perRequest), func(b *testing.B) { benchmarkCommits(b, perRequest) })
	}
}

func benchmarkCommits(b *testing.B, perRequest int) {
	const (
		asking     = 256 // connections that wait for an answer at a time
		partitions = 96  // of each group
	)
	tail, cold := buffer.NewPool("tail", 64<<20), buffer.NewPool("cold", 16<<20)
	defer func() { _, _ = tail.Close(), cold.Close() }()
	directory := b.TempDir()
	store, err := engine.New(engine.Options{
		OpenDisk: func() (disk.Disk, error) { return backend.Open(directory, "auto", backend.Options{}) },
		Tail:     tail, Cold: cold, JournalBytes: 32 << 20,
	})
	if err != nil {
		b.Fatal(err)
	}
	on, stop := brokertest.Start(b, store, brokertest.Options{})
	defer stop()
	ctx := context.Background()
	topic := brokertest.CreateTopic(b, on, "orders", partitions, nil)
	if _, err := on.FindGroupCoordinator(ctx, "group-0"); err != nil {
		b.Fatal(err)
	}
	for n := range offsetsInPlay / partitions {
		commitRange(b, on, topic, n, 0, partitions)
	}
	var next atomic.Int64
	var running sync.WaitGroup
	b.ResetTimer()
	began := time.Now()
	for range asking {
		running.Go(func() {
			for {
				op := next.Add(int64(perRequest)) - int64(perRequest)
				if op >= int64(b.N) {
					return
				}
				at := int(op % offsetsInPlay)
				commitRange(b, on, topic, at/partitions, at%partitions, perRequest)
			}
		})
	}
	running.Wait()
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "commits/s")
	appends := on.GroupMetrics().Appends.Load()
	b.ReportMetric(float64(on.GroupMetrics().AppendedRecords.Load())/float64(max(appends, 1)), "commits/append")
}

// commitRange commits some partitions of the topic for group number n.
func commitRange(b *testing.B, on *broker.Broker, topic *meta.Topic, n, from, count int) {
	request := &group.OffsetCommit{GroupID: fmt.Sprint("group-", n), Generation: -1, RetentionMillis: -1,
		Topics: []group.OffsetCommitTopic{{Topic: topic.Name, ID: topic.ID, Partitions: make([]group.OffsetCommitPartition, count)}}}
	for i := range request.Topics[0].Partitions {
		request.Topics[0].Partitions[i] = group.OffsetCommitPartition{Partition: int32(from + i), Offset: time.Now().UnixNano(), LeaderEpoch: 1}
	}
	for {
		answer, err := broker.AskGroup[*group.OffsetCommitted](context.Background(), on, request.GroupID, request)
		if err == broker.ErrCoordinatorLoading {
			continue // the topic is new
		}
		if err == nil {
			err = answer.Topics[0].Partitions[0].Err
		}
		if err != nil {
			b.Error(err)
		}
		return
	}
}
