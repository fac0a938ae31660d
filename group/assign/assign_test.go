package assign

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ringlog/meta"
)

// topicID is the id of the n-th topic of a test.
func topicID(n int) meta.TopicID {
	var id meta.TopicID
	binary.BigEndian.PutUint64(id[8:], uint64(n)+1)
	return id
}

// newGroup has topics of so many partitions, and members that subscribe to those of the given places.
func newGroup(partitions []int32, subscriptions ...[]int) *Group {
	g := &Group{}
	for n, count := range partitions {
		g.Topics = append(g.Topics, Topic{ID: topicID(n), Partitions: count})
	}
	for m, topics := range subscriptions {
		member := Member{ID: fmt.Sprintf("m%05d", m)}
		for _, n := range topics {
			member.Topics = append(member.Topics, topicID(n))
		}
		g.Members = append(g.Members, member)
	}
	return g
}

// failer is a testing.T or a rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, arguments ...any)
}

// run assigns and lets the members own what they got. It checks what holds for every assignor: each partition
// of a topic with a subscriber has exactly one owner, who subscribes to it.
func run(t failer, assignor Assignor, g *Group) []Partitions {
	t.Helper()
	sets := assignor.Assign(g)
	if len(sets) != len(g.Members) {
		t.Fatalf("%d sets for %d members", len(sets), len(g.Members))
	}
	owners := map[meta.TopicID]map[int32]string{}
	for m, set := range sets {
		if !set.Equal(NewPartitions(set)) {
			t.Fatalf("%s: the set is out of order: %s", g.Members[m].ID, set)
		}
		for _, of := range set {
			if !slices.Contains(g.Members[m].Topics, of.Topic) {
				t.Fatalf("%s got partitions of a topic that it does not subscribe to", g.Members[m].ID)
			}
			if owners[of.Topic] == nil {
				owners[of.Topic] = map[int32]string{}
			}
			for _, partition := range of.Partitions {
				if owner := owners[of.Topic][partition]; owner != "" {
					t.Fatalf("partition %d is of both %s and %s", partition, owner, g.Members[m].ID)
				}
				owners[of.Topic][partition] = g.Members[m].ID
			}
		}
	}
	for _, topic := range g.Topics {
		subscribed := slices.ContainsFunc(g.Members, func(m Member) bool { return slices.Contains(m.Topics, topic.ID) })
		if subscribed && len(owners[topic.ID]) != int(topic.Partitions) || !subscribed && len(owners[topic.ID]) > 0 {
			t.Fatalf("%d of %d partitions have an owner", len(owners[topic.ID]), topic.Partitions)
		}
	}
	return sets
}

func own(g *Group, sets []Partitions) {
	for m := range sets {
		g.Members[m].Owned = sets[m]
	}
}

// kept counts the partitions that stay with their owners.
func kept(g *Group, sets []Partitions) int {
	count := 0
	for m := range sets {
		count += g.Members[m].Owned.Intersect(sets[m]).Count()
	}
	return count
}

// draw makes a random group of up to 30 members, with what they own from an earlier, smaller or larger, life.
func draw(t *rapid.T, homogeneous bool) *Group {
	topics := rapid.IntRange(1, 6).Draw(t, "topics")
	partitions := rapid.SliceOfN(rapid.Int32Range(1, 40), topics, topics).Draw(t, "partitions")
	random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	subscriptions := make([][]int, rapid.IntRange(1, 30).Draw(t, "members"))
	for m := range subscriptions {
		for n := range topics {
			if homogeneous || random.IntN(2) == 0 {
				subscriptions[m] = append(subscriptions[m], n)
			}
		}
	}
	g := newGroup(partitions, subscriptions...)
	owned := make([][]TopicPartitions, len(g.Members))
	for n := range topics {
		for partition := range partitions[n] + 2 { // two that are no more
			if member := random.IntN(len(g.Members) + 3); member < len(g.Members) {
				if random.IntN(3) == 0 {
					member = 0 // somebody had too much
				}
				owned[member] = append(owned[member], TopicPartitions{topicID(n), []int32{partition}})
			}
		}
	}
	for m := range owned {
		g.Members[m].Owned = NewPartitions(owned[m])
	}
	g.Topics = slices.DeleteFunc(g.Topics, func(topic Topic) bool {
		return !slices.ContainsFunc(g.Members, func(m Member) bool { return slices.Contains(m.Topics, topic.ID) })
	})
	return g
}

// Members of one subscription differ by one partition at most, and no even assignment keeps more where it is.
func TestUniformIsEvenAndMovesTheLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := draw(t, true)
		sets := run(t, Uniform, g)
		total := 0
		for _, topic := range g.Topics {
			total += int(topic.Partitions)
		}
		least, extra := total/len(g.Members), total%len(g.Members)
		most := 0 // that could stay: each member its quota, and as many as may have one more
		for m := range sets {
			if count := sets[m].Count(); count != least && count != least+1 {
				t.Fatalf("%s has %d of %d partitions among %d members", g.Members[m].ID, count, total, len(g.Members))
			}
			valid := g.Members[m].Owned.Filter(func(topic meta.TopicID, partition int32) bool {
				at, ok := newTable(g).topic(topic)
				return ok && partition < g.Topics[at].Partitions
			}).Count()
			if most += min(valid, least); valid > least && extra > 0 {
				most++
				extra--
			}
		}
		if stayed := kept(g, sets); stayed != most {
			t.Fatalf("%d partitions stay where they are, %d could", stayed, most)
		}
		own(g, sets)
		if again := run(t, Uniform, g); kept(g, again) != total {
			t.Fatal("partitions move although nothing has changed")
		}
	})
}

// With different subscriptions no partition could go to a subscriber that has two or more fewer than its owner, and
// what is settled stays.
func TestUniformOfMixedSubscriptionsHasNoBetterMove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := draw(t, false)
		sets := run(t, Uniform, g)
		for m, set := range sets {
			for _, of := range set {
				for other := range g.Members {
					if slices.Contains(g.Members[other].Topics, of.Topic) && sets[other].Count()+2 <= set.Count() {
						t.Fatalf("%s has %d partitions, and %s, which could take one, %d", g.Members[m].ID, set.Count(), g.Members[other].ID, sets[other].Count())
					}
				}
			}
		}
		own(g, sets)
		for m, again := range run(t, Uniform, g) {
			if !again.Equal(sets[m]) {
				t.Fatal("partitions move although nothing has changed")
			}
		}
	})
}

// Each subscriber of a topic has one run of its partitions, as long as any other's or one longer, and members
// with the same topics have the same numbers of topics of the same size.
func TestRangeGivesRunsThatGoTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := draw(t, rapid.Bool().Draw(t, "homogeneous"))
		sets := run(t, Range, g)
		for _, topic := range g.Topics {
			shortest, longest := int(topic.Partitions), 0
			for m, set := range sets {
				if !slices.Contains(g.Members[m].Topics, topic.ID) {
					continue
				}
				run := set.Of(topic.ID)
				if len(run) > 0 && int(run[len(run)-1]-run[0]) != len(run)-1 {
					t.Fatalf("%s has %v, which is no run", g.Members[m].ID, run)
				}
				shortest, longest = min(shortest, len(run)), max(longest, len(run))
			}
			if longest > shortest+1 && longest > 0 {
				t.Fatalf("runs are %d to %d long", shortest, longest)
			}
		}
		if !g.homogeneous() {
			return
		}
		for _, set := range sets {
			for a := range g.Topics {
				for b := range a {
					if g.Topics[a].Partitions == g.Topics[b].Partitions && !slices.Equal(set.Of(g.Topics[a].ID), set.Of(g.Topics[b].ID)) {
						t.Fatalf("co-partitioned topics went apart: %s", set)
					}
				}
			}
		}
	})
}

// A static member that comes back under another member id finds its run: its place is its instance's.
func TestRangeKeepsAStaticMembersPlace(t *testing.T) {
	g := newGroup([]int32{7}, []int{0}, []int{0}, []int{0})
	for m, instance := range []string{"b", "a", ""} {
		g.Members[m].InstanceID = instance
	}
	before := run(t, Range, g)
	if got := before[1].Of(topicID(0)); !slices.Equal(got, []int32{0, 1, 2}) {
		t.Errorf("instance a, the first, has %v", got)
	}
	if got := before[2].Of(topicID(0)); !slices.Equal(got, []int32{5, 6}) {
		t.Errorf("the dynamic member, after all static ones, has %v", got)
	}
	g.Members[1].ID = "zzz"
	for m, set := range run(t, Range, g) {
		if !set.Equal(before[m]) {
			t.Errorf("member %d has %s, and had %s", m, set, before[m])
		}
	}
}

func TestPartitionsAreSets(t *testing.T) {
	type topics = []TopicPartitions
	a := NewPartitions(topics{{topicID(1), []int32{3, 1, 3}}, {topicID(0), nil}, {topicID(1), []int32{2}}})
	b := NewPartitions(topics{{topicID(0), []int32{5}}, {topicID(1), []int32{2, 9}}})
	rapid.Check(t, func(t *rapid.T) {
		topic, partition := topicID(rapid.IntRange(0, 2).Draw(t, "topic")), rapid.Int32Range(0, 10).Draw(t, "partition")
		inA, inB := a.Contains(topic, partition), b.Contains(topic, partition)
		for _, row := range []struct {
			name string
			set  Partitions
			want bool
		}{{"union", a.Union(b), inA || inB}, {"intersection", a.Intersect(b), inA && inB}, {"difference", a.Minus(b), inA && !inB}} {
			if row.set.Contains(topic, partition) != row.want {
				t.Fatalf("%s has partition %d of %s: %v, want %v", row.name, partition, topic, !row.want, row.want)
			}
		}
	})
	switch {
	case a.Count() != 3 || b.Count() != 3 || a.Equal(b):
		t.Errorf("a is %s, b is %s", a, b)
	case !a.Overlaps(b) || a.Within(b) || !a.Intersect(b).Within(a):
		t.Error("what they have in common is in both")
	case NewPartitions(nil) != nil || a.Minus(a) != nil:
		t.Error("the empty set is nil")
	}
}

// The size that the design is made for: 12,000 members of one topic with 16,384 partitions, and one more joins.
func BenchmarkOneJoins(b *testing.B) {
	const members, partitions = 12_000, 16_384
	for _, assignor := range Assignors() {
		for _, mixedSubscriptions := range []bool{false, true} {
			b.Run(fmt.Sprintf("assignor=%s/mixed=%v", assignor.Name(), mixedSubscriptions), func(b *testing.B) {
				subscriptions := make([][]int, members+1)
				for m := range subscriptions {
					subscriptions[m] = []int{0}
					if mixedSubscriptions && m%2 == 0 {
						subscriptions[m] = []int{0, 1}
					}
				}
				g := newGroup([]int32{partitions, 100}, subscriptions...)
				if !mixedSubscriptions {
					g.Topics = g.Topics[:1]
				}
				all := g.Members
				g.Members = all[:members]
				own(g, assignor.Assign(g))
				g.Members = all
				b.ResetTimer()
				var moved int
				for b.Loop() {
					moved = partitions - kept(g, assignor.Assign(g))
				}
				b.ReportMetric(float64(moved), "moved")
			})
		}
	}
}
