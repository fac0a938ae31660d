package broker_test

import (
	"context"
	"errors"
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
	on, stop := startOnDisk(b, b.TempDir(), brokertest.NewController())
	defer stop()
	topic := brokertest.CreateTopic(b, on, "orders", partitions, nil)
	if _, err := on.FindGroupCoordinator(b.Context(), "group-0"); err != nil {
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

// BenchmarkLoad starts a broker whose offsets topic has each of the offsets in play ten times, and waits until
// every group is there again. An op is a start.
func BenchmarkLoad(b *testing.B) {
	const partitions = 96
	directory, controller := b.TempDir(), brokertest.NewController()
	on, stop := startOnDisk(b, directory, controller)
	topic := brokertest.CreateTopic(b, on, "orders", partitions, nil)
	if _, err := on.FindGroupCoordinator(b.Context(), "group-0"); err != nil {
		b.Fatal(err)
	}
	for range 10 {
		var running sync.WaitGroup
		for side := range 16 {
			running.Go(func() {
				for n := side; n < offsetsInPlay/partitions; n += 16 {
					commitRange(b, on, topic, n, 0, partitions)
				}
			})
		}
		running.Wait()
	}
	stop()
	records, took := int64(0), time.Duration(0)
	for range b.N {
		on, stop := startOnDisk(b, directory, controller)
		began := time.Now()
		again := time.NewTicker(time.Millisecond)
		for on.GroupMetrics().Loads.Load() < 50 {
			<-again.C
		}
		again.Stop()
		took += time.Since(began)
		records += on.GroupMetrics().LoadedRecords.Load()
		stop()
	}
	b.ReportMetric(float64(records)/took.Seconds(), "records/s")
	b.ReportMetric(took.Seconds()/float64(b.N), "s/load")
}

// startOnDisk starts a broker on a directory. stop gives everything back.
func startOnDisk(b *testing.B, directory string, controller *brokertest.Controller) (on *broker.Broker, stop func()) {
	b.Helper()
	tail, cold := buffer.NewPool("tail", 64<<20), buffer.NewPool("cold", 16<<20)
	store, err := engine.New(engine.Options{
		OpenDisk: func() (disk.Disk, error) { return backend.Open(directory, "auto", backend.Options{}) },
		Tail:     tail, Cold: cold, JournalBytes: 32 << 20,
	})
	if err != nil {
		b.Fatal(err)
	}
	on, end := brokertest.Start(b, store, brokertest.Options{Controller: controller})
	return on, func() {
		end()
		if err := errors.Join(tail.Close(), cold.Close()); err != nil {
			b.Error(err)
		}
	}
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
