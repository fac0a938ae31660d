package killtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/internal/ringlogtest"
)

const membersMax = 4

// crew is a consumer group of franz-go's clients that come and go, on the topic of a subject.
type crew struct {
	*testing.T
	subject *subject
	address string
	options []kgo.Opt
	members []*crewMember
	leaving sync.WaitGroup
	joined  int

	mu        sync.Mutex
	committed map[int32]int64 // by partition: the largest offset whose commit was answered with success, or that was read
}

type crewMember struct {
	client *kgo.Client
	stop   context.CancelFunc
	done   chan struct{}
}

// TestKillWithMembers kills the broker while members of a group join and leave: no committed offset falls back or is
// lost, and when it is quiet the group settles with whoever is there and has consumed everything. Scenario 49 of
// docs/reliability.md.
func TestKillWithMembers(t *testing.T) {
	for name, options := range map[string][]kgo.Opt{"classic": nil, "KIP-848": {kgo.ServerSideBalancer()}} {
		t.Run(name, func(t *testing.T) { testMembers(t, options) })
	}
}

func testMembers(t *testing.T, options []kgo.Opt) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("again: go test ./internal/killtest -v -run '%s' -args -kills=%d -seed=%d", t.Name(), *killsFlag, seed)
	random := rand.New(rand.NewPCG(seed, 5))
	broker := ringlogtest.Start(t, ringlogtest.Options{Flags: []string{
		"--set", "group.initial.rebalance.delay.ms=20", "--set", "group.min.session.timeout.ms=500",
		"--set", "group.consumer.heartbeat.interval.ms=50", "--set", "group.consumer.min.heartbeat.interval.ms=50",
		"--set", "group.consumer.session.timeout.ms=1500", "--set", "group.consumer.min.session.timeout.ms=500",
	}})
	s := &subject{topic: "shared", partitions: 6, retries: true, options: []kgo.Opt{kgo.StopProducerOnDataLossDetected()}}
	s.create(t, broker.Address, 0)
	c := &crew{T: t, subject: s, address: broker.Address, options: options, committed: map[int32]int64{}}
	t.Cleanup(c.disband)
	c.join()
	c.join()
	times := max(1, *killsFlag/3)
	for kills := 0; kills < times && !t.Failed(); kills++ {
		load := startLoad(t, []*subject{s}, random)
		for range 1 + random.IntN(3) {
			c.change(random)
			pause(t, 0, 200*time.Millisecond, random)
		}
		broker.Kill()
		if random.IntN(2) == 0 {
			c.change(random) // while nobody is there
		}
		broker.Restart()
		c.checkCommitted()
		pause(t, 0, 100*time.Millisecond, random)
		load.finish()
	}
	c.leaving.Wait()
	c.awaitSettled()
	s.read(t, broker.Address)
	s.check(t)
	t.Logf("%d kills, %d members joined, %d are there in the end; %s", times, c.joined, len(c.members), totals([]*subject{s}))
}

// change has a member join or leave.
func (c *crew) change(random *rand.Rand) {
	if len(c.members) < membersMax && (len(c.members) < 2 || random.IntN(2) == 0) {
		c.join()
		return
	}
	c.leave(random.IntN(len(c.members)))
}

func (c *crew) join() {
	c.Helper()
	client := newClient(c.T, c.address, append([]kgo.Opt{
		kgo.ConsumerGroup("crew"), kgo.ConsumeTopics(c.subject.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(100 * time.Millisecond), kgo.HeartbeatInterval(100 * time.Millisecond), kgo.SessionTimeout(1500 * time.Millisecond),
		kgo.RebalanceTimeout(5 * time.Second), kgo.AutoCommitInterval(100 * time.Millisecond), kgo.AutoCommitCallback(c.note),
	}, c.options...)...)
	ctx, stop := context.WithCancel(context.Background())
	member := &crewMember{client, stop, make(chan struct{})}
	go func() {
		defer close(member.done)
		for ctx.Err() == nil {
			for record := range client.PollFetches(ctx).RecordsAll() {
				c.subject.history.See(Position{record.Partition, record.Offset}, record.Value)
			}
		}
	}()
	c.members = append(c.members, member)
	c.joined++
}

// leave has a member leave, however long that takes it.
func (c *crew) leave(index int) {
	member := c.members[index]
	c.members = append(c.members[:index], c.members[index+1:]...)
	member.stop()
	c.leaving.Go(func() {
		<-member.done
		member.client.CloseAllowingRebalance()
	})
}

func (c *crew) disband() {
	for len(c.members) > 0 {
		c.leave(0)
	}
	c.leaving.Wait()
}

// note remembers what a member was told is committed.
func (c *crew) note(_ *kgo.Client, request *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
	if err != nil || response == nil {
		return
	}
	failed := map[int32]bool{}
	for _, topic := range response.Topics {
		for _, partition := range topic.Partitions {
			failed[partition.Partition] = partition.ErrorCode != 0
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, topic := range request.Topics {
		for _, partition := range topic.Partitions {
			if bad, answered := failed[partition.Partition]; answered && !bad {
				c.committed[partition.Partition] = max(c.committed[partition.Partition], partition.Offset)
			}
		}
	}
}

// checkCommitted looks for everything that was committed, and returns what is.
func (c *crew) checkCommitted() map[int32]int64 {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	c.mu.Lock()
	promised := map[int32]int64{}
	for partition, offset := range c.committed {
		promised[partition] = offset
	}
	c.mu.Unlock()
	client := newClient(c.T, c.address)
	defer client.Close()
	fetched, err := kadm.NewClient(client).FetchOffsets(ctx, "crew")
	if err == nil {
		err = fetched.Error()
	}
	if err != nil {
		c.Fatalf("asking for committed offsets: %v", err)
	}
	found := map[int32]int64{}
	fetched.Each(func(offset kadm.OffsetResponse) { found[offset.Partition] = offset.At })
	c.mu.Lock()
	defer c.mu.Unlock()
	for partition, offset := range promised {
		if at, there := found[partition]; !there || at < offset {
			c.Errorf("the committed offset of partition %d is %d (there: %t); %d was promised", partition, at, there, offset)
		}
	}
	for partition, offset := range found {
		c.committed[partition] = max(c.committed[partition], offset)
	}
	return found
}

// awaitSettled waits until the group is stable with all members that are there, and everything is consumed and committed.
func (c *crew) awaitSettled() {
	c.Helper()
	client := newClient(c.T, c.address)
	defer client.Close()
	admin := kadm.NewClient(client)
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	ends, err := admin.ListEndOffsets(ctx, c.subject.topic)
	if err != nil {
		c.Fatal(err)
	}
	await(c.T, fmt.Sprintf("a stable group of %d that has consumed everything", len(c.members)), func() bool {
		groups, err := admin.ListGroups(ctx)
		if err != nil || groups["crew"].State != "Stable" || c.count(ctx, admin) != len(c.members) {
			return false
		}
		committed, records := c.checkCommitted(), int64(0)
		behind := false
		ends.Each(func(end kadm.ListedOffset) {
			records += end.Offset
			behind = behind || end.Offset > 0 && committed[end.Partition] != end.Offset
		})
		_, _, seen := c.subject.history.Counts()
		return !behind && seen == records
	})
}

// count asks of how many members the group is; -1 is no answer.
func (c *crew) count(ctx context.Context, admin *kadm.Client) int {
	if len(c.options) == 0 {
		groups, err := admin.DescribeGroups(ctx, "crew")
		if err != nil || groups["crew"].Err != nil {
			return -1
		}
		return len(groups["crew"].Members)
	}
	groups, err := admin.DescribeConsumerGroups(ctx, "crew")
	if err != nil || groups["crew"].Err != nil {
		return -1
	}
	return len(groups["crew"].Members)
}
