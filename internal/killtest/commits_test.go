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
	topicID            [16]byte
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
	id := createCommitted(t, broker.Address)
	groups := make([]*committer, committersCount)
	for i := range groups {
		groups[i] = &committer{group: fmt.Sprint("group-", i), topicID: id}
	}
	times := max(1, *killsFlag/2)
	for kills := 0; kills < times && !t.Failed(); kills++ {
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		client := commitClient(t, broker.Address)
		for _, g := range groups {
			running.Go(func() { g.run(ctx, client) })
		}
		pause(t, 100*time.Millisecond, 500*time.Millisecond, random)
		broker.Kill()
		cancel()
		running.Wait()
		client.Close()
		broker.Restart()
		client = commitClient(t, broker.Address)
		for _, g := range groups {
			running.Go(func() { g.check(t, client) })
		}
		running.Wait()
		client.Close()
	}
	total := int64(0)
	for _, g := range groups {
		total += g.acknowledged.Load()
	}
	if total == 0 {
		t.Error("nothing was committed: this has shown nothing")
	}
	t.Logf("%d kills, %d commits acknowledged", times, total)
}

const committedTopic = "committed"

func commitClient(t *testing.T, address string) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.MetadataMinAge(10*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 5 * time.Millisecond }))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func createCommitted(t *testing.T, address string) (id [16]byte) {
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
	return response.Topics[0].TopicID
}

// run commits until ctx ends. A commit that fails may have been made or not.
func (g *committer) run(ctx context.Context, client *kgo.Client) {
	for ctx.Err() == nil {
		offset := g.sent.Add(1)
		request := kmsg.NewPtrOffsetCommitRequest()
		request.Group, request.Generation = g.group, -1
		topic := kmsg.NewOffsetCommitRequestTopic()
		topic.Topic, topic.TopicID = committedTopic, g.topicID
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
func (g *committer) check(t *testing.T, client *kgo.Client) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		request := kmsg.NewPtrOffsetFetchRequest()
		of := kmsg.NewOffsetFetchRequestGroup()
		of.Group = g.group
		of.Topics = append(of.Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: committedTopic, TopicID: g.topicID, Partitions: []int32{0}})
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
		if acknowledged, sent := g.acknowledged.Load(), g.sent.Load(); acknowledged > 0 && offset < acknowledged || offset > sent {
			t.Errorf("%s: the committed offset is %d; %d was acknowledged, the last one sent is %d", g.group, offset, acknowledged, sent)
		}
		return
	}
}
