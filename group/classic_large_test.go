package group

import (
	"fmt"
	"testing"

	"ringlog/coord"
	"ringlog/meta"
)

// largeGroup is a group of many members that is stable, and what asks it.
type largeGroup struct {
	machine *Machine
	now     int64
	token   uint64
	effects coord.Effects
	ids     []string
}

func newLargeGroup(tb testing.TB, members int) *largeGroup {
	l := &largeGroup{now: storyMillis, machine: New(&Config{SessionTimeoutMinMillis: 1, SessionTimeoutMaxMillis: 1 << 30, OffsetsCheckIntervalMillis: 1 << 40,
		InitialRebalanceDelayMillis: 100, MembersMax: members}, meta.NewImage())}
	for i := range members {
		l.join("", fmt.Sprintf("%036d", i))
	}
	for l.machine.NextMillis() <= l.now+3_600_000 && l.machine.group("g").classic.state != StateCompletingRebalance {
		l.now = l.machine.NextMillis()
		l.effects.Reset()
		l.machine.Tick(l.now, &l.effects)
	}
	for _, member := range l.machine.group("g").classic.members {
		l.ids = append(l.ids, member.id)
	}
	if len(l.ids) != members {
		tb.Fatalf("%d members: %s", len(l.ids), l.machine.group("g").classic.state)
	}
	l.sync()
	return l
}

func (l *largeGroup) ask(body any) {
	l.token++
	l.effects.Reset()
	l.machine.Step(l.now, coord.Request{Token: l.token, Body: body}, &l.effects)
}

func (l *largeGroup) join(id, fresh string) {
	l.ask(&Join{GroupID: "g", MemberID: id, NewMemberID: fresh, ClientID: "application", ClientHost: "/10.0.0.1", SessionTimeoutMillis: 45_000, RebalanceTimeoutMillis: 300_000,
		ProtocolType: "consumer", Protocols: []Protocol{{Name: "range", Metadata: make([]byte, 100)}}})
}

// sync has everybody ask for its assignment, the leader last.
func (l *largeGroup) sync() {
	generation := l.machine.group("g").classic.generation
	leader := &Sync{GroupID: "g", MemberID: l.ids[0], Generation: generation}
	for _, id := range l.ids {
		leader.Assignments = append(leader.Assignments, Assignment{MemberID: id, Assignment: make([]byte, 40)})
		if id != leader.MemberID {
			l.ask(&Sync{GroupID: "g", MemberID: id, Generation: generation})
		}
	}
	l.ask(leader)
}

// rebalance has everybody join again, the leader first, and sync.
func (l *largeGroup) rebalance() {
	for _, id := range l.ids {
		l.join(id, "")
	}
	l.sync()
}

// kafka-map 1A: 1,200,000 messages per second at 10 ms each want 12,000 consumers in one group.
func TestAGroupOfTwelveThousandMembersRebalances(t *testing.T) {
	members := 12_000
	if raceEnabled {
		members /= 10
	}
	l := newLargeGroup(t, members)
	l.rebalance()
	g := l.machine.group("g").classic
	if g.state != StateStable || g.generation != 2 || len(g.members) != members {
		t.Fatalf("%s, generation %d, %d members", g.state, g.generation, len(g.members))
	}
	if got := len(l.effects.Records[0].Value); got > groupMetadataBytesMax/4 {
		t.Errorf("its record has %d bytes", got)
	}
	// All at once are gone: nobody sends a heartbeat.
	for l.machine.NextMillis() < l.now+60_000 && g.state != StateEmpty {
		l.now = l.machine.NextMillis()
		l.effects.Reset()
		l.machine.Tick(l.now, &l.effects)
	}
	if g.state != StateEmpty {
		t.Errorf("%s with %d members", g.state, len(g.members))
	}
}

// A heartbeat is what coordinators are asked most.
func TestAHeartbeatAllocatesNothing(t *testing.T) {
	l := newLargeGroup(t, 100)
	beat := &Heartbeat{GroupID: "g", MemberID: l.ids[50], Generation: 1}
	l.ask(beat)
	if allocations := testing.AllocsPerRun(1000, func() { l.ask(beat) }); allocations != 0 {
		t.Errorf("a heartbeat takes %v allocations", allocations)
	}
}

func BenchmarkHeartbeat(b *testing.B) {
	for _, members := range []int{10, 12_000} {
		b.Run(fmt.Sprint("members=", members), func(b *testing.B) {
			l := newLargeGroup(b, members)
			beats := make([]*Heartbeat, members)
			for i, id := range l.ids {
				beats[i] = &Heartbeat{GroupID: "g", MemberID: id, Generation: 1}
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				l.ask(beats[i%members])
			}
		})
	}
}

func BenchmarkRebalance(b *testing.B) {
	for _, members := range []int{10, 1000, 12_000} {
		b.Run(fmt.Sprint("members=", members), func(b *testing.B) {
			l := newLargeGroup(b, members)
			b.ReportAllocs()
			for b.Loop() {
				l.rebalance()
			}
		})
	}
}
