package killtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/internal/ringlogtest"
)

// committers are groups that commit rising offsets all the time.
const committersCount = 32

// committer is one group. What it was told is committed must be there after a kill, and nothing
// that it never sent.
type committer struct {
	group              string
	sent, acknowledged atomic.Int64
}

// TestKillKeepsCommittedOffsets kills the broker while groups commit: an offset that was
// acknowledged never falls back (scenario 49 of docs/reliability.md).
func TestKillKeepsCommittedOffsets(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("again: go test ./internal/killtest -v -run '%s' -args -kills=%d -seed=%d", t.Name(), *killsFlag, seed)
	random := rand.New(rand.NewPCG(seed, 3))
	broker := ringlogtest.Start(t, ringlogtest.Options{})
	createCommitted(t, broker.Address)
	groups := make([]*committer, committersCount)
	for i := range groups {
		groups[i] = &committer{group: fmt.Sprint("group-", i)}
	}
	for kills := 0; kills < *killsFlag && !t.Failed(); kills++ {
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for _, g := range groups {
			running.Go(func() { g.run(ctx, t, broker.Address) })
		}
		pause(t, 100*time.Millisecond, 500*time.Millisecond, random)
		broker.Kill()
		cancel()
		running.Wait()
		broker.Restart()
		for _, g := range groups {
			g.check(t, broker.Address)
		}
	}
	total := int64(0)
	for _, g := range groups {
		total += g.acknowledged.Load()
	}
	if total == 0 {
		t.Error("nothing was committed: this has shown nothing")
	}
	t.Logf("%d kills, %d commits acknowledged", *killsFlag, total)
}

const committedTopic = "committed"

func commitClient(t *testing.T, address string) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func createCommitted(t *testing.T, address string) {
	t.Helper()
	client := commitClient(t, address)
	defer client.Close()
	request := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = committedTopic, 1, 1
	request.Topics = append(request.Topics, topic)
	response, err := request.RequestWith(t.Context(), client)
	if err == nil {
		err = kerr.ErrorForCode(response.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// run commits until ctx ends. A commit that fails may have been made or not.
func (g *committer) run(ctx context.Context, t *testing.T, address string) {
	client := commitClient(t, address)
	defer client.Close()
	for ctx.Err() == nil {
		offset := g.sent.Add(1)
		request := kmsg.NewPtrOffsetCommitRequest()
		request.Group, request.Generation = g.group, -1
		topic := kmsg.NewOffsetCommitRequestTopic()
		topic.Topic = committedTopic
		partition := kmsg.NewOffsetCommitRequestTopicPartition()
		partition.Offset = offset
		topic.Partitions = append(topic.Partitions, partition)
		request.Topics = append(request.Topics, topic)
		response, err := request.RequestWith(ctx, client)
		if err == nil && response.Topics[0].Partitions[0].ErrorCode == 0 {
			g.acknowledged.Store(offset)
		}
	}
}

// check asks for the offset until the coordinator has loaded: meanwhile it must say so, and not that
// nothing was committed.
func (g *committer) check(t *testing.T, address string) {
	t.Helper()
	client := commitClient(t, address)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		request := kmsg.NewPtrOffsetFetchRequest()
		of := kmsg.NewOffsetFetchRequestGroup()
		of.Group = g.group
		of.Topics = append(of.Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: committedTopic, Partitions: []int32{0}})
		request.Groups = append(request.Groups, of)
		response, err := request.RequestWith(ctx, client)
		if err == nil {
			err = kerr.ErrorForCode(response.Groups[0].ErrorCode)
		}
		if errors.Is(err, kerr.CoordinatorLoadInProgress) || errors.Is(err, kerr.NotCoordinator) {
			continue
		}
		if err != nil {
			t.Error(err)
			return
		}
		offset := response.Groups[0].Topics[0].Partitions[0].Offset
		if acknowledged, sent := g.acknowledged.Load(), g.sent.Load(); offset < acknowledged || offset > sent {
			t.Errorf("%s: the committed offset is %d; %d was acknowledged, the last one sent is %d", g.group, offset, acknowledged, sent)
		}
		return
	}
}
