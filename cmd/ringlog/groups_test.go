package main

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"ringlog/internal/ringlogtest"
)

// These stories are told by consumer groups of real clients: franz-go with every one of its balancers, and kcat
// beside it, so that what one client's leader assigns is what another's follower reads.

// groupPatience bounds every wait; only a group that hangs reaches it.
const groupPatience = 60 * time.Second

// startGroupBroker starts a broker whose groups do not wait long for more members.
func startGroupBroker(t *testing.T) *ringlogtest.Broker {
	t.Helper()
	return ringlogtest.Start(t, ringlogtest.Options{Flags: []string{"--set", "group.initial.rebalance.delay.ms=50"}})
}

// consumerGroup is a group of franz-go's clients on one topic, and who of them owns what.
type consumerGroup struct {
	t          *testing.T
	broker     *ringlogtest.Broker
	topic      string
	partitions int
	produced   int

	mu      sync.Mutex
	owners  map[int32]string // who owns each partition now
	seen    map[string]int   // how often each record was consumed
	changes map[string]int   // how often each member was given or lost partitions
}

func newConsumerGroup(t *testing.T, broker *ringlogtest.Broker, partitions int) *consumerGroup {
	t.Helper()
	g := &consumerGroup{t: t, broker: broker, topic: notInTopicName.ReplaceAllString(t.Name(), "-"), partitions: partitions,
		owners: map[int32]string{}, seen: map[string]int{}, changes: map[string]int{}}
	if _, complaint, code := (script{}).execute(t, strings.NewReader(""), "topic", "create", g.topic, "--brokers", broker.Address, "--partitions", strconv.Itoa(partitions)); code != exitOK {
		t.Fatalf("creating topic %s: %s", g.topic, complaint)
	}
	return g
}

func (g *consumerGroup) options(more ...kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{kgo.SeedBrokers(g.broker.Address), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.Dialer(dialPatiently),
	}, more...)
}

// dialPatiently connects as soon as somebody listens. A franz-go that is refused a connection ends its membership
// by itself; what a restart of the coordinator costs is then not to be seen.
func dialPatiently(ctx context.Context, network, address string) (net.Conn, error) {
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		connection, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err == nil || ctx.Err() != nil {
			return connection, err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// join adds a member that consumes until leave, or until the end of the test.
func (g *consumerGroup) join(name string, options ...kgo.Opt) (member *kgo.Client, leave func()) {
	g.t.Helper()
	take := func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		g.take(name, partitions[g.topic])
	}
	give := func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		g.give(name, partitions[g.topic])
	}
	member, err := kgo.NewClient(g.options(append([]kgo.Opt{
		kgo.ConsumerGroup(g.topic), kgo.ConsumeTopics(g.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.HeartbeatInterval(100 * time.Millisecond), kgo.SessionTimeout(10 * time.Second), kgo.RebalanceTimeout(20 * time.Second), kgo.AutoCommitInterval(100 * time.Millisecond),
		kgo.OnPartitionsAssigned(take), kgo.OnPartitionsRevoked(give), kgo.OnPartitionsLost(give),
	}, options...)...)...)
	if err != nil {
		g.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	consumed := make(chan struct{})
	go func() {
		defer close(consumed)
		for ctx.Err() == nil {
			member.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
				g.mu.Lock()
				g.seen[string(r.Value)]++
				g.mu.Unlock()
			})
		}
	}()
	leave = sync.OnceFunc(func() {
		cancel()
		<-consumed
		member.CloseAllowingRebalance()
	})
	g.t.Cleanup(leave)
	return member, leave
}

// take notes that a member owns partitions; nobody else may at that time.
func (g *consumerGroup) take(name string, partitions []int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.changes[name]++
	for _, partition := range partitions {
		if owner, owned := g.owners[partition]; owned && owner != name {
			g.t.Errorf("%s was given partition %d, which %s still owns", name, partition, owner)
		}
		g.owners[partition] = name
	}
}

func (g *consumerGroup) give(name string, partitions []int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.changes[name]++
	for _, partition := range partitions {
		if g.owners[partition] == name {
			delete(g.owners, partition)
		}
	}
}

// awaitShares waits until every partition is owned, and each member owns so many.
func (g *consumerGroup) awaitShares(want map[string]int) {
	g.t.Helper()
	g.await(func() string {
		got := map[string]int{}
		for _, owner := range g.owners {
			got[owner]++
		}
		if !maps.Equal(got, want) {
			return fmt.Sprintf("members own %v partitions, want %v", got, want)
		}
		return ""
	})
}

// await waits until missing says that nothing is; it is called with the group locked.
func (g *consumerGroup) await(missing func() string) {
	g.t.Helper()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	deadline := time.After(groupPatience)
	for {
		g.mu.Lock()
		lack := missing()
		g.mu.Unlock()
		if lack == "" {
			return
		}
		select {
		case <-again.C:
		case <-deadline:
			g.t.Fatal(lack)
		}
	}
}

// produce sends records, as many to each partition, and returns their values.
func (g *consumerGroup) produce(each int) (values []string) {
	g.t.Helper()
	producer, err := kgo.NewClient(g.options(kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		g.t.Fatal(err)
	}
	defer producer.Close()
	var records []*kgo.Record
	for range each {
		for partition := range g.partitions {
			value := fmt.Sprintf("%d of partition %d", g.produced, partition)
			records = append(records, &kgo.Record{Topic: g.topic, Partition: int32(partition), Value: []byte(value)})
			values = append(values, value)
			g.produced++
		}
	}
	if err := producer.ProduceSync(g.t.Context(), records...).FirstErr(); err != nil {
		g.t.Fatal(err)
	}
	return values
}

// awaitConsumed waits until records were consumed by franz-go.
func (g *consumerGroup) awaitConsumed(values []string) {
	g.t.Helper()
	g.await(func() string {
		for _, value := range values {
			if g.seen[value] == 0 {
				return fmt.Sprintf("record %s was not consumed", value)
			}
		}
		return ""
	})
}

// kafka-map 1H: eager protocols, where all give up everything (range, roundrobin, sticky), and the cooperative one,
// where only what moves stands still (KIP-429). Members come and go; no partition ever has two owners.
func TestFranzGoSharesATopicWithEveryBalancer(t *testing.T) {
	broker := startGroupBroker(t)
	for name, balancer := range map[string]kgo.GroupBalancer{
		"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(), "sticky": kgo.StickyBalancer(), "cooperative": kgo.CooperativeStickyBalancer(),
	} {
		t.Run(name, func(t *testing.T) {
			g := newConsumerGroup(t, broker, 6)
			first := g.produce(10)
			g.join("a", kgo.Balancers(balancer))
			g.awaitShares(map[string]int{"a": 6})
			_, leave := g.join("b", kgo.Balancers(balancer))
			g.awaitShares(map[string]int{"a": 3, "b": 3})
			g.join("c", kgo.Balancers(balancer))
			g.awaitShares(map[string]int{"a": 2, "b": 2, "c": 2})
			g.awaitConsumed(append(first, g.produce(10)...))
			leave()
			g.awaitShares(map[string]int{"a": 3, "c": 3})
			g.awaitConsumed(g.produce(10))
		})
	}
}

// The coordinator is killed and comes back: the members are those that they were, in the same generation, and nobody
// rebalances.
func TestAGroupOutlivesItsCoordinator(t *testing.T) {
	broker := startGroupBroker(t)
	g := newConsumerGroup(t, broker, 4)
	a, _ := g.join("a")
	g.join("b")
	g.awaitShares(map[string]int{"a": 2, "b": 2})
	g.awaitConsumed(g.produce(1)) // a franz-go that has not yet got its offsets would begin anew
	id, generation := a.GroupMetadata()
	g.mu.Lock()
	changes := maps.Clone(g.changes)
	g.mu.Unlock()
	broker.Kill()
	broker.Restart()
	g.awaitConsumed(g.produce(10))
	again, now := a.GroupMetadata()
	g.mu.Lock()
	defer g.mu.Unlock()
	if again != id || now != generation || !maps.Equal(g.changes, changes) {
		t.Errorf("member %s in generation %d, changes %v; before the coordinator was killed %s in %d, %v", again, now, g.changes, id, generation, changes)
	}
}

// KIP-345: static members restart one after the other, and nobody else notices: one generation for all of it.
func TestStaticMembersRestartOneByOne(t *testing.T) {
	const members = 12
	broker := startGroupBroker(t)
	g := newConsumerGroup(t, broker, members)
	want := map[string]int{}
	leaves := map[string]func(){}
	var one *kgo.Client
	for i := range members {
		name := fmt.Sprint("m", i)
		want[name] = 1
		one, leaves[name] = g.join(name, kgo.InstanceID(name))
	}
	g.awaitShares(want)
	_, generation := one.GroupMetadata()
	for _, name := range slices.Sorted(maps.Keys(leaves)) {
		g.mu.Lock()
		before := maps.Clone(g.changes)
		g.mu.Unlock()
		leaves[name]()
		one, _ = g.join(name, kgo.InstanceID(name))
		g.awaitShares(want)
		if _, now := one.GroupMetadata(); now != generation {
			t.Fatalf("after %s has restarted the generation is %d, before any did it was %d", name, now, generation)
		}
		g.mu.Lock()
		delete(before, name)
		for other, count := range before {
			if g.changes[other] != count {
				t.Errorf("%s was given or lost partitions when %s restarted", other, name)
			}
		}
		g.mu.Unlock()
	}
	g.awaitConsumed(g.produce(2))
}

// kcat, which is librdkafka, and franz-go in one group: whichever leads, the other follows.
func TestKcatAndFranzGoShareAGroup(t *testing.T) {
	requireKcat(t)
	for _, first := range []string{"kcat", "franz-go"} {
		t.Run(first+" leads", func(t *testing.T) {
			g := newConsumerGroup(t, startGroupBroker(t), 4)
			if first == "kcat" {
				k := g.kcat()
				g.produce(1)
				k.awaitPartitions(4)
				g.join("franz", kgo.Balancers(kgo.RangeBalancer()))
				g.shareWith(k)
				return
			}
			g.join("franz", kgo.Balancers(kgo.RangeBalancer()))
			g.awaitShares(map[string]int{"franz": 4})
			k := g.kcat()
			g.shareWith(k)
			k.stop()
			g.awaitShares(map[string]int{"franz": 4})
			g.awaitConsumed(g.produce(1))
		})
	}
}

// shareWith waits until franz-go owns half of the partitions, and sees that kcat gets what comes in the others and
// nothing else.
func (g *consumerGroup) shareWith(k *groupKcat) {
	g.t.Helper()
	g.awaitShares(map[string]int{"franz": 2})
	k.forget()
	g.mu.Lock()
	clear(g.seen)
	g.mu.Unlock()
	g.produce(5)
	k.awaitPartitions(2)
	g.await(func() string {
		if len(g.seen) < 2*5 {
			return fmt.Sprintf("franz-go has consumed %d of its 10 records", len(g.seen))
		}
		return ""
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	for partition := range k.seen {
		if g.owners[partition] != "" {
			g.t.Errorf("kcat consumes partition %d of franz-go", partition)
		}
	}
}

// groupKcat is a running kcat that is a member of the group.
type groupKcat struct {
	g    *consumerGroup
	stop func()

	mu   sync.Mutex
	seen map[int32]int // records by partition
}

func (g *consumerGroup) kcat() *groupKcat {
	g.t.Helper()
	command := exec.Command("kcat", "-b", g.broker.Address, "-m", "30", "-u", "-q", "-f", "%p\n",
		"-X", "broker.address.family=v4", "-X", "session.timeout.ms=10000", "-X", "heartbeat.interval.ms=100", "-X", "fetch.wait.max.ms=100",
		"-X", "partition.assignment.strategy=range", "-X", "auto.offset.reset=earliest", "-G", g.topic, g.topic)
	output, err := command.StdoutPipe()
	if err != nil {
		g.t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		g.t.Fatal(err)
	}
	k := &groupKcat{g: g, seen: map[int32]int{}}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			if partition, err := strconv.ParseInt(lines.Text(), 10, 32); err == nil {
				k.mu.Lock()
				k.seen[int32(partition)]++
				k.mu.Unlock()
			}
		}
	}()
	k.stop = sync.OnceFunc(func() {
		command.Process.Signal(syscall.SIGTERM) // it leaves its group
		<-read
		command.Wait()
	})
	g.t.Cleanup(k.stop)
	return k
}

// awaitPartitions waits until kcat has consumed from so many partitions.
func (k *groupKcat) awaitPartitions(count int) {
	k.g.t.Helper()
	k.g.await(func() string {
		k.mu.Lock()
		defer k.mu.Unlock()
		if len(k.seen) < count {
			return fmt.Sprintf("kcat has consumed from partitions %v, want %d of them", slices.Sorted(maps.Keys(k.seen)), count)
		}
		return ""
	})
}

func (k *groupKcat) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.seen)
}
