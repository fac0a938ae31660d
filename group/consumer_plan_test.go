package group

import (
	"fmt"
	"testing"
	"time"

	"ringlog/coord"
	"ringlog/group/assign"
)

// plannedGroup is a group of the size that the design is made for, each member with what it was told.
type plannedGroup struct {
	machine *Machine
	now     int64
	told    map[string]assign.Partitions
	epochs  map[string]int32

	records, recordBytes int
	longest              time.Duration // of all steps
}

func newPlannedGroup(partitions int) *plannedGroup {
	topics := newTestTopics()
	topics.create("orders", partitions)
	config := testConfig()
	config.Consumer.AssignmentIntervalMillis.Value = 1000
	g := &plannedGroup{machine: New(config, topics.image), now: 1_700_000_000_000, told: map[string]assign.Partitions{}, epochs: map[string]int32{}}
	return g
}

// beat is one heartbeat of a member, which acknowledges what it was last told.
func (g *plannedGroup) beat(id string) *ConsumerHeartbeatAnswer {
	request := &ConsumerHeartbeat{GroupID: "g", MemberID: id, Epoch: g.epochs[id], RebalanceTimeoutMillis: -1, OwnedGiven: true, Owned: g.told[id]}
	if request.Epoch == JoinEpoch {
		request.Names, request.RebalanceTimeoutMillis = []string{"orders"}, 60_000
	}
	var effects coord.Effects
	began := time.Now()
	g.machine.Step(g.now, coord.Request{Token: 1, Body: request}, &effects)
	g.longest = max(g.longest, time.Since(began))
	g.count(&effects)
	answer := effects.Answers[0].Body.(*ConsumerHeartbeatAnswer)
	if answer.Err != nil {
		panic(answer.Err)
	}
	if g.epochs[id] = answer.Epoch; answer.HasAssignment {
		g.told[id] = answer.Assignment
	}
	return answer
}

func (g *plannedGroup) count(effects *coord.Effects) {
	g.records += len(effects.Records)
	for _, record := range effects.Records {
		g.recordBytes += len(record.Key) + len(record.Value)
	}
}

// pass lets time pass.
func (g *plannedGroup) pass(millis int64) {
	g.now += millis
	for g.machine.NextMillis() <= g.now {
		var effects coord.Effects
		began := time.Now()
		g.machine.Tick(g.now, &effects)
		g.longest = max(g.longest, time.Since(began))
		g.count(&effects)
	}
}

// settle has all members send heartbeats, in rounds five seconds apart, until nothing is stored any more. It returns how
// many rounds changed something.
func (g *plannedGroup) settle(members []string) (rounds int) {
	for {
		before := g.records
		for _, id := range members {
			g.beat(id)
		}
		g.pass(5_000)
		if g.records == before {
			return rounds
		}
		rounds++
	}
}

// The figures behind "cooperative moves 1 in N": 12,000 members share 16,384 partitions, and one more joins.
func TestOneMemberJoinsTwelveThousand(t *testing.T) {
	members, partitions := 12_000, 16_384
	if testing.Short() || raceEnabled {
		members, partitions = 1_200, 1_638
	}
	g := newPlannedGroup(partitions)
	ids := make([]string, members)
	for n := range ids {
		ids[n] = fmt.Sprintf("member-%05d", n)
	}
	began := time.Now()
	rounds := g.settle(ids)
	t.Logf("%d members join: %d rounds of heartbeats, %d records, %d bytes, %v in all, the longest step %v", members, rounds, g.records, g.recordBytes,
		time.Since(began).Round(time.Millisecond), g.longest.Round(time.Microsecond))

	before := make(map[string]assign.Partitions, members)
	for id, told := range g.told {
		before[id] = told
	}
	g.records, g.recordBytes, g.longest = 0, 0, 0
	g.pass(1_000)
	began = time.Now()
	rounds = g.settle(append(ids, "member-one-more"))
	moved, disturbed := 0, 0
	for _, id := range ids {
		if gone := before[id].Minus(g.told[id]).Count(); gone > 0 {
			moved += gone
			disturbed++
		}
	}
	t.Logf("one more: %d partitions move, %d of %d members give something up, %d rounds, %d records, %d bytes, %v in all, the longest step %v",
		moved, disturbed, members, rounds, g.records, g.recordBytes, time.Since(began).Round(time.Millisecond), g.longest.Round(time.Microsecond))
	least := partitions / (members + 1)
	if moved > least+1 || disturbed > least+1 {
		t.Errorf("%d partitions moved from %d members, and %d were due", moved, disturbed, least)
	}
	if got := g.told["member-one-more"].Count(); got < least || got > least+1 {
		t.Errorf("the new member has %d partitions, want %d or one more", got, least)
	}
}

// KIP-1263: a group of more than 100 members does not get a target for each member that joins, and none waits longer than the
// interval for its own.
func TestALargeGroupIsAssignedOnceInAnInterval(t *testing.T) {
	g := newPlannedGroup(1_000)
	ids := make([]string, 300)
	for n := range ids {
		ids[n] = fmt.Sprintf("member-%03d", n)
		g.beat(ids[n])
	}
	group := g.machine.group("g").consumer
	if group.epoch != 300 || group.assignmentEpoch != assignAtOnceMembersMax {
		t.Errorf("after 300 have joined at once the epoch is %d and the target is of %d, want 300 and %d", group.epoch, group.assignmentEpoch, assignAtOnceMembersMax)
	}
	if state := group.state(); state != StateAssigning {
		t.Errorf("the group is %s", state)
	}
	g.pass(1_000)
	if group.assignmentEpoch != 300 {
		t.Errorf("a second later the target is of %d", group.assignmentEpoch)
	}
	g.settle(ids)
	for _, id := range ids {
		if count := g.told[id].Count(); count < 3 || count > 4 {
			t.Errorf("%s has %d partitions", id, count)
		}
	}
}

// What a join costs a classic group of that size, for comparison: every member joins and synchronizes again. With an eager
// assignor every partition stands still until the last has; with a cooperative one those that move do, and
// all members come a second time (KIP-429).
func TestOneMemberJoinsTwelveThousandOfAClassicGroup(t *testing.T) {
	members := 12_000
	if raceEnabled {
		members /= 10
	}
	l := newLargeGroup(t, members)
	began := time.Now()
	l.rebalance()
	requests, bytes := 2*members, 0
	for _, record := range l.effects.Records {
		bytes += len(record.Key) + len(record.Value)
	}
	if bytes == 0 {
		t.Error("nothing is stored")
	}
	t.Logf("eager: all %d members stop, %d requests, %d bytes stored, %v in all; cooperative: %d requests, %d bytes", members, requests, bytes,
		time.Since(began).Round(time.Millisecond), 2*requests, 2*bytes)
}

// A heartbeat that changes nothing is what coordinators of these groups are asked most: it costs its answer and nothing else,
// whatever the size of the group.
func TestAConsumerHeartbeatAllocatesItsAnswer(t *testing.T) {
	g := newPlannedGroup(200)
	ids := make([]string, 90)
	for n := range ids {
		ids[n] = fmt.Sprintf("member-%02d", n)
	}
	g.settle(ids)
	request := &ConsumerHeartbeat{GroupID: "g", MemberID: ids[50], Epoch: g.epochs[ids[50]], RebalanceTimeoutMillis: -1}
	var effects coord.Effects
	if allocations := testing.AllocsPerRun(1000, func() {
		effects.Reset()
		g.machine.Step(g.now, coord.Request{Token: 1, Body: request}, &effects)
	}); allocations > 1 {
		t.Errorf("a heartbeat takes %v allocations", allocations)
	}
	if answer := effects.Answers[0].Body.(*ConsumerHeartbeatAnswer); answer.Err != nil || answer.HasAssignment || len(effects.Records) > 0 {
		t.Errorf("answered with %+v", answer)
	}
}
