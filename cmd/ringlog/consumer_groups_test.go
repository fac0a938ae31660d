package main

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/internal/ringlogtest"
)

// These stories are told by real clients of the consumer protocol (KIP-848): the broker assigns. They use
// the groups of groups_test.go.

// startConsumerGroupBroker starts a broker that wants to hear of members often, so that a test does not take the seconds
// that a heartbeat has by default.
func startConsumerGroupBroker(t *testing.T) *ringlogtest.Broker {
	t.Helper()
	return ringlogtest.Start(t, ringlogtest.Options{Flags: []string{
		"--set", "group.initial.rebalance.delay.ms=50",
		"--set", "group.consumer.heartbeat.interval.ms=50", "--set", "group.consumer.min.heartbeat.interval.ms=50",
		"--set", "group.consumer.session.timeout.ms=10000", "--set", "group.consumer.min.session.timeout.ms=1000",
	}})
}

// describe returns the group as ConsumerGroupDescribe has it.
func (g *consumerGroup) describe() kmsg.ConsumerGroupDescribeResponseGroup {
	g.t.Helper()
	client, err := kgo.NewClient(g.options()...)
	if err != nil {
		g.t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(g.t.Context(), groupPatience)
	defer cancel()
	request := kmsg.NewPtrConsumerGroupDescribeRequest()
	request.Groups = []string{g.topic}
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		g.t.Fatal(err)
	}
	return response.Groups[0]
}

// groupType returns what ListGroups says the group is.
func (g *consumerGroup) groupType() string {
	g.t.Helper()
	client, err := kgo.NewClient(g.options()...)
	if err != nil {
		g.t.Fatal(err)
	}
	defer client.Close()
	groups, err := kadm.NewClient(client).ListGroups(g.t.Context())
	if err != nil {
		g.t.Fatal(err)
	}
	return groups[g.topic].GroupType
}

// kafka-map 1H: "KIP-848: server-side assignment, no barrier, uniform and range". Members come and go; no partition ever
// has two owners, and nobody but those that give something up notices.
func TestTheBrokerAssignsToFranzGo(t *testing.T) {
	broker := startConsumerGroupBroker(t)
	for name, balancer := range map[string]kgo.GroupBalancer{"uniform": kgo.CooperativeStickyBalancer(), "range": kgo.RangeBalancer()} {
		t.Run(name, func(t *testing.T) {
			g := newConsumerGroup(t, broker, 6)
			g.produce(10)
			options := []kgo.Opt{kgo.ServerSideBalancer(), kgo.Balancers(balancer)}
			g.join("a", options...)
			g.awaitShares(map[string]int{"a": 6})
			_, leave := g.join("b", options...)
			g.awaitShares(map[string]int{"a": 3, "b": 3})
			g.join("c", options...)
			g.awaitShares(map[string]int{"a": 2, "b": 2, "c": 2})
			g.awaitConsumed(g.produce(10))
			described := g.describe()
			if described.ErrorCode != 0 || described.AssignorName != name || described.State != "Stable" || len(described.Members) != 3 {
				t.Errorf("the group is described as %+v", described)
			}
			leave()
			g.awaitShares(map[string]int{"a": 3, "c": 3})
			g.awaitConsumed(g.produce(10))
		})
	}
}

// A topic that gets more partitions, and, with a regular expression that the broker resolves, one that comes later.
func TestTheBrokerAssignsWhatComesLater(t *testing.T) {
	broker := startConsumerGroupBroker(t)
	g := newConsumerGroup(t, broker, 2)
	options := []kgo.Opt{kgo.ServerSideBalancer(), kgo.MetadataMinAge(50 * time.Millisecond), kgo.MetadataMaxAge(200 * time.Millisecond)}
	g.join("a", options...)
	g.join("b", options...)
	g.awaitShares(map[string]int{"a": 1, "b": 1})
	client, err := kgo.NewClient(g.options()...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).UpdatePartitions(t.Context(), 6, g.topic); err != nil {
		t.Fatal(err)
	}
	g.awaitShares(map[string]int{"a": 3, "b": 3})

	// The first topic that matches is there, so that the client has something to begin with.
	first, second := g.topic+"-first", g.topic+"-second"
	g.createTopic(first)
	owned := map[string]int{}
	count := func(by int) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			g.mu.Lock()
			defer g.mu.Unlock()
			for topic, numbers := range partitions {
				owned[topic] += by * len(numbers)
			}
		}
	}
	other, err := kgo.NewClient(g.options(append(options, kgo.ConsumerGroup("by-expression"), kgo.ConsumeRegex(), kgo.ConsumeTopics(g.topic+"-.*"),
		kgo.OnPartitionsAssigned(count(1)), kgo.OnPartitionsRevoked(count(-1)), kgo.OnPartitionsLost(count(-1)))...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	awaitOwned := func(want map[string]int) {
		t.Helper()
		g.await(func() string {
			if !maps.Equal(owned, want) {
				return fmt.Sprintf("the member of the expression owns %v, want %v", owned, want)
			}
			return ""
		})
	}
	awaitOwned(map[string]int{first: 2})
	g.createTopic(second)
	awaitOwned(map[string]int{first: 2, second: 2})
}

// createTopic creates another topic than the group's own, with two partitions.
func (g *consumerGroup) createTopic(name string) {
	g.t.Helper()
	if _, complaint, code := (script{}).execute(g.t, strings.NewReader(""), "topic", "create", name, "--brokers", g.broker.Address, "--partitions", "2"); code != exitOK {
		g.t.Fatalf("creating topic %s: %s", name, complaint)
	}
}

// The coordinator is killed and comes back: the members are those that they were, at the same epoch.
func TestAConsumerGroupOutlivesItsCoordinator(t *testing.T) {
	broker := startConsumerGroupBroker(t)
	g := newConsumerGroup(t, broker, 4)
	g.join("a", kgo.ServerSideBalancer())
	g.join("b", kgo.ServerSideBalancer())
	g.awaitShares(map[string]int{"a": 2, "b": 2})
	before := g.describe()
	g.mu.Lock()
	changes := maps.Clone(g.changes)
	g.mu.Unlock()
	broker.Kill()
	broker.Restart()
	g.awaitConsumed(g.produce(10))
	after := g.describe()
	if after.Epoch != before.Epoch || after.AssignmentEpoch != before.AssignmentEpoch || len(after.Members) != 2 || after.Members[0].MemberID != before.Members[0].MemberID {
		t.Errorf("the group was\n%+v\nand is\n%+v", before, after)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !maps.Equal(g.changes, changes) {
		t.Errorf("members were given or lost partitions: %v, before %v", g.changes, changes)
	}
}

// KIP-848, static membership: a member that restarts finds its partitions, and the group's epoch stays.
func TestStaticMembersOfAConsumerGroupRestart(t *testing.T) {
	broker := startConsumerGroupBroker(t)
	const members = 4
	g := newConsumerGroup(t, broker, members)
	want, leaves := map[string]int{}, map[string]func(){}
	for i := range members {
		name := fmt.Sprint("m", i)
		want[name] = 1
		_, leaves[name] = g.join(name, kgo.ServerSideBalancer(), kgo.InstanceID(name))
	}
	g.awaitShares(want)
	epoch := g.describe().Epoch
	for name := range want {
		leaves[name]()
		g.mu.Lock()
		maps.DeleteFunc(g.owners, func(_ int32, owner string) bool { return owner == name })
		g.mu.Unlock()
		g.join(name, kgo.ServerSideBalancer(), kgo.InstanceID(name))
		g.awaitShares(want)
	}
	if now := g.describe().Epoch; now != epoch {
		t.Errorf("the epoch is %d after all have restarted, and was %d", now, epoch)
	}
	g.awaitConsumed(g.produce(5))
}

// KIP-848, "Online migration": an application is updated instance by instance, and back.
func TestAClassicGroupBecomesAConsumerGroupAndBack(t *testing.T) {
	for name, balancer := range map[string]kgo.GroupBalancer{"eager": kgo.RangeBalancer(), "cooperative": kgo.CooperativeStickyBalancer()} {
		t.Run(name, func(t *testing.T) {
			broker := startConsumerGroupBroker(t)
			g := newConsumerGroup(t, broker, 6)
			g.produce(10)
			g.join("old-1", kgo.Balancers(balancer))
			_, leaveOld := g.join("old-2", kgo.Balancers(balancer))
			g.awaitShares(map[string]int{"old-1": 3, "old-2": 3})
			if kind := g.groupType(); kind != "classic" {
				t.Errorf("the group is %s", kind)
			}
			_, leaveNew := g.join("new", kgo.ServerSideBalancer())
			g.awaitShares(map[string]int{"old-1": 2, "old-2": 2, "new": 2})
			if kind := g.groupType(); kind != "consumer" {
				t.Errorf("the group is %s after a member of the new protocol has joined", kind)
			}
			g.awaitConsumed(g.produce(10))
			leaveOld()
			g.awaitShares(map[string]int{"old-1": 3, "new": 3})
			leaveNew()
			g.awaitShares(map[string]int{"old-1": 6})
			if kind := g.groupType(); kind != "classic" {
				t.Errorf("the group is %s after the last member of the new protocol has left", kind)
			}
			g.awaitConsumed(g.produce(10))
		})
	}
}
