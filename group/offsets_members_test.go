package group

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/coord"
)

// joined makes a classic group of one member, which is subscribed to topics, and returns its id and generation.
func (r *offsetsRig) joined(group, protocolType string, topics ...string) (member string, generation int32) {
	r.Helper()
	metadata := kmsg.ConsumerMemberMetadata{Topics: topics}
	answer := r.ask(&Join{GroupID: group, NewMemberID: "1", ClientID: "member", SessionTimeoutMillis: 45_000, RebalanceTimeoutMillis: 60_000,
		ProtocolType: protocolType, Protocols: []Protocol{{Name: "range", Metadata: metadata.AppendTo(nil)}}}).(*JoinAnswer)
	if answer.Err != nil {
		r.Fatal(answer.Err)
	}
	synced := r.ask(&Sync{GroupID: group, MemberID: answer.MemberID, Generation: answer.Generation,
		Assignments: []Assignment{{MemberID: answer.MemberID, Assignment: []byte("all")}}}).(*SyncAnswer)
	if synced.Err != nil {
		r.Fatal(synced.Err)
	}
	return answer.MemberID, answer.Generation
}

func newMembersRig(t *testing.T, topics ...string) *offsetsRig {
	r := newOffsetsRig(t, topics...)
	r.config.SessionTimeoutMinMillis, r.config.SessionTimeoutMaxMillis, r.config.MembersMax = 6000, 1_800_000, 100
	return r
}

// live has a member send heartbeats for a while, at the pace of real ones where it matters.
func (r *offsetsRig) live(group, member string, generation int32, millis int64) {
	r.Helper()
	for until := r.now + millis; r.now < until; {
		r.pass(min(40_000, until-r.now))
		if answer := r.ask(&Heartbeat{GroupID: group, MemberID: member, Generation: generation}).(*HeartbeatAnswer); answer.Err != nil {
			r.Fatal(answer.Err)
		}
	}
}

func (r *offsetsRig) leave(group, member string) {
	r.Helper()
	r.ask(&Leave{GroupID: group, Members: []Leaving{{MemberID: member}}})
}

// Scenario 50: a member that was away may not commit over those who have taken its place; and while a group has
// members only they commit.
func TestOnlyMembersOfThePresentGenerationCommit(t *testing.T) {
	r := newMembersRig(t, "orders")
	member, generation := r.joined("readers", "consumer", "orders")
	for _, c := range []struct {
		name       string
		member     string
		generation int32
		want       error
	}{
		{"the member", member, generation, nil},
		{"of an older generation", member, generation - 1, ErrIllegalGeneration},
		{"of a generation to come", member, generation + 1, ErrIllegalGeneration},
		{"a stranger", "stranger", generation, ErrUnknownMember},
		{"a simple consumer", "", -1, ErrUnknownMember},
	} {
		commit := r.commit("readers", "orders", 5)
		commit.MemberID, commit.Generation = c.member, c.generation
		if err := r.committed(commit); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	r.leave("readers", member)
	r.must(r.commit("readers", "orders", 9)) // an operator resets the offsets of a group that is stopped
	r.wants("readers", "orders", 9)
}

// KIP-496: offsets of topics that members are subscribed to are not deleted; a group of another kind than consumers
// must be empty.
func TestOffsetsInUseAreNotDeleted(t *testing.T) {
	remove := func(r *offsetsRig, topic string) (whole, partition error) {
		answer := r.ask(&OffsetDelete{GroupID: "readers", Topics: []OffsetDeleteTopic{{Topic: topic, Partitions: []OffsetDeletePartition{{Partition: 0}}}}}).(*OffsetsDeleted)
		return answer.Err, answer.Topics[0].Partitions[0].Err
	}
	r := newMembersRig(t, "orders", "payments")
	r.must(r.commit("readers", "payments", 2))
	member, generation := r.joined("readers", "consumer", "orders")
	commit := r.commit("readers", "orders", 1)
	commit.MemberID, commit.Generation = member, generation
	r.must(commit)
	if whole, partition := remove(r, "orders"); whole != nil || !errors.Is(partition, ErrGroupSubscribed) {
		t.Errorf("subscribed: %v %v", whole, partition)
	}
	if whole, partition := remove(r, "payments"); whole != nil || partition != nil {
		t.Errorf("not subscribed: %v %v", whole, partition)
	}
	r.wants("readers", "orders", 1)
	r.wants("readers", "payments", -1)

	other := newMembersRig(t, "orders")
	other.must(other.commit("readers", "orders", 1))
	other.joined("readers", "connect")
	if whole, _ := remove(other, "orders"); !errors.Is(whole, ErrNonEmptyGroup) {
		t.Errorf("a group of connectors: %v", whole)
	}
}

// KIP-211: the clock of a group starts when its last member leaves, however old the commits are.
func TestAGroupKeepsItsOffsetsForTheRetentionAfterItsLastMemberLeft(t *testing.T) {
	r := newMembersRig(t, "orders")
	member, generation := r.joined("readers", "consumer", "orders")
	commit := r.commit("readers", "orders", 1)
	commit.MemberID, commit.Generation = member, generation
	r.must(commit)
	r.live("readers", member, generation, 9*day) // longer than the retention, and nothing new to commit
	r.wants("readers", "orders", 1)
	r.leave("readers", member)
	r.pass(7*day - hour)
	r.wants("readers", "orders", 1)
	r.pass(2 * hour)
	r.wants("readers", "orders", -1)
	if c := r.counts(); c != (Counts{}) {
		t.Errorf("left over: %+v", c)
	}
	machine := New(r.config, r.image) // tombstones of all records are in the log: nothing comes back
	for _, record := range r.log {
		if err := machine.Replay(record); err != nil {
			t.Fatal(err)
		}
	}
	if len(machine.order) != 0 {
		t.Errorf("%d groups come back", len(machine.order))
	}
}

// KIP-211, the second part: a living group forgets a topic that it no longer reads, and no other. What is no group of consumers
// may need all of it.
func TestALivingGroupForgetsOnlyTopicsThatItNoLongerReads(t *testing.T) {
	for _, kind := range []string{"consumer", "connect"} {
		r := newMembersRig(t, "orders", "payments")
		r.must(r.commit("readers", "orders", 1))
		r.must(r.commit("readers", "payments", 2))
		member, generation := r.joined("readers", kind, "orders")
		r.live("readers", member, generation, 8*day)
		want := map[string]int64{"consumer": -1, "connect": 2}[kind]
		if got := r.offset("readers", "payments"); got != want {
			t.Errorf("%s: not subscribed: %d, want %d", kind, got, want)
		}
		if got := r.offset("readers", "orders"); got != 1 {
			t.Errorf("%s: subscribed: %d, want 1", kind, got)
		}
	}
}

// A commit counts as a heartbeat of its member, as in Kafka.
func TestACommitKeepsAMemberAlive(t *testing.T) {
	r := newMembersRig(t, "orders")
	member, generation := r.joined("readers", "consumer", "orders")
	for range 10 {
		r.pass(30_000)
		commit := r.commit("readers", "orders", 1)
		commit.MemberID, commit.Generation = member, generation
		r.must(commit)
	}
	r.pass(46_000)
	commit := r.commit("readers", "orders", 1)
	commit.MemberID, commit.Generation = member, generation
	if err := r.committed(commit); !errors.Is(err, ErrUnknownMember) {
		t.Errorf("after its session: %v", err)
	}
}

var _ coord.Machine = (*Machine)(nil)
