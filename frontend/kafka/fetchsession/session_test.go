package fetchsession

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// wishes asks for partitions of topic t, by their numbers.
func wishes(numbers ...int32) (list []Wish) {
	for _, number := range numbers {
		list = append(list, Wish{Partition: Partition{Topic: "t", Number: number}})
	}
	return list
}

// partitions are those of a session, in the order in which they are read.
func partitions(s *Session) (numbers []int32) {
	for slot, ok := s.First(); ok; slot, ok = s.Next(slot) {
		numbers = append(numbers, s.Wish(slot).Number)
	}
	return numbers
}

func newCache(sessions int) *Cache {
	return New(Options{SessionsMax: sessions, PartitionsMax: 1000})
}

// KIP-227: what is asked for is kept, changed and forgotten, and each request is the next.
func TestASessionGoesOnFromRequestToRequest(t *testing.T) {
	c := newCache(2)
	s := c.Create(0, 7, false, wishes(0, 1, 2))
	if s.ID != 7 || s.Epoch() != 1 || !slices.Equal(partitions(s), []int32{0, 1, 2}) {
		t.Fatalf("%+v", s)
	}
	moved := wishes(1, 3)
	moved[0].Offset = 9
	got, err := c.Begin(1, 7, 1, false, moved, []Partition{{Topic: "t", Number: 0}, {Topic: "t", Number: 77}})
	if err != nil || got != s || s.Epoch() != 2 || !slices.Equal(partitions(s), []int32{1, 2, 3}) {
		t.Fatalf("%v: epoch %d, partitions %v", err, s.Epoch(), partitions(s))
	}
	if slot, ok := s.Find(&moved[0].Partition); !ok || s.Wish(slot).Offset != 9 {
		t.Error("the offset has not changed")
	}
	for name, begin := range map[string]func() error{
		"a repeated request": func() error { _, err := c.Begin(2, 7, 1, false, nil, nil); return err },
		"one from nowhere":   func() error { _, err := c.Begin(2, 7, 9, false, nil, nil); return err },
	} {
		if err := begin(); !errors.Is(err, ErrEpoch) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.Begin(2, 7, 2, true, nil, nil); !errors.Is(err, ErrTopicIDs) {
		t.Errorf("by id: %v", err)
	}
	if _, err := c.Begin(2, 8, 2, false, nil, nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("another id: %v", err)
	}
	if got, err := c.Begin(3, 7, 2, false, nil, []Partition{{Topic: "t", Number: 1}, {Topic: "t", Number: 2}, {Topic: "t", Number: 3}}); got != nil || err != nil {
		t.Errorf("with everything forgotten: %v, %v", got, err)
	}
	if status := c.Status(); status != (Status{}) {
		t.Errorf("afterwards: %+v", status)
	}
}

func TestEpochsGoRound(t *testing.T) {
	c := newCache(1)
	s := c.Create(0, 7, false, wishes(0))
	s.epoch = math.MaxInt32
	if _, err := c.Begin(0, 7, math.MaxInt32, false, nil, nil); err != nil || s.Epoch() != 1 {
		t.Errorf("%v, epoch %d", err, s.Epoch())
	}
	if other := newCache(2); other.Create(0, math.MaxInt32, false, wishes(0)) == nil || other.Create(0, math.MaxInt32, false, wishes(0)).ID != 1 {
		t.Error("an id that is taken is not passed over")
	}
}

// What has changed is told, and what was told is not told again.
func TestOnlyWhatHasChangedIsTold(t *testing.T) {
	c := newCache(1)
	s := c.Create(0, 7, false, wishes(0))
	for n, step := range []struct {
		told Told
		want bool
	}{
		{Told{HighWatermark: 0}, true}, // the first time
		{Told{HighWatermark: 0}, false},
		{Told{HighWatermark: 0, Bytes: 5}, true},
		{Told{HighWatermark: 5}, true},
		{Told{HighWatermark: 5}, false},
		{Told{HighWatermark: 5, Start: 3}, true},
		{Told{HighWatermark: 5, Start: 3, Diverges: true}, true},
		{Told{HighWatermark: -1, Start: -1, Failed: true}, true},
		{Told{HighWatermark: -1, Start: -1, Failed: true}, true}, // errors every time
		{Told{HighWatermark: 5, Start: 3}, true},                 // it is over
		{Told{HighWatermark: 5, Start: 3}, false},
	} {
		if got := s.Answer(0, step.told); got != step.want {
			t.Errorf("step %d, %+v: told %t, want %t", n, step.told, got, step.want)
		}
	}
}

// A partition that gave records goes behind the others: when an answer is full, all get their turn.
func TestWhoGaveRecordsIsReadLast(t *testing.T) {
	c := newCache(1)
	s := c.Create(0, 7, false, wishes(0, 1, 2))
	for _, step := range []struct {
		number int32
		want   []int32
	}{{0, []int32{1, 2, 0}}, {2, []int32{1, 0, 2}}, {2, []int32{1, 0, 2}}, {1, []int32{0, 2, 1}}} {
		slot, _ := s.Find(&Partition{Topic: "t", Number: step.number})
		s.Answer(slot, Told{Bytes: 1})
		if got := partitions(s); !slices.Equal(got, step.want) {
			t.Errorf("after records of %d: %v, want %v", step.number, got, step.want)
		}
	}
}

// KIP-227: a session that is used is safe for two minutes, and from then on from smaller ones; one that
// is not used for as long goes first.
func TestEvictionFollowsKafkasRules(t *testing.T) {
	const old = EvictionMillisDefault + 1
	c := newCache(2)
	one, two := c.Create(0, 1, false, wishes(0)), c.Create(0, 2, false, wishes(0, 1))
	use := func(now int64, sessions ...*Session) {
		for _, s := range sessions {
			if _, err := c.Begin(now, s.ID, s.Epoch(), false, nil, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	use(EvictionMillisDefault, one, two)
	if c.Create(EvictionMillisDefault, 3, false, wishes(0, 1, 2)) != nil {
		t.Error("a young session is evicted")
	}
	use(old, one, two)
	if c.Create(old, 3, false, wishes(0)) != nil {
		t.Error("a session is evicted for one that is not larger")
	}
	three := c.Create(old, 3, false, wishes(0, 1))
	if three == nil {
		t.Fatal("the smallest is not evicted for a larger one")
	}
	if _, err := c.Begin(old, 1, one.Epoch(), false, nil, nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("the evicted one: %v", err)
	}
	use(3*old, three)
	if c.Create(3*old, 4, false, wishes(0)) == nil {
		t.Error("a session that nobody uses is not evicted")
	}
	if _, err := c.Begin(3*old, 2, two.Epoch(), false, nil, nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("the unused one: %v", err)
	}
	if got := c.Status(); got != (Status{Sessions: 2, Partitions: 3, Evictions: 2}) {
		t.Errorf("status %+v", got)
	}
	if none := New(Options{PartitionsMax: 10}); none.Create(0, 1, false, wishes(0)) != nil {
		t.Error("a cache without slots makes a session")
	}
}

// All sessions together are bounded by partitions, too: who asks for more starts over without one.
func TestPartitionsAreBounded(t *testing.T) {
	c := New(Options{SessionsMax: 10, PartitionsMax: 3})
	if c.Create(0, 1, false, wishes(0, 1, 2, 3)) != nil {
		t.Error("a session above the bound")
	}
	s := c.Create(0, 1, false, wishes(0, 1))
	if c.Create(0, 2, false, wishes(0, 1)) != nil {
		t.Error("two sessions above the bound")
	}
	if _, err := c.Begin(1, 1, s.Epoch(), false, wishes(2, 3), nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("a session that grows above the bound: %v", err)
	}
	if got := c.Status(); got.Partitions != 0 || got.Sessions != 0 {
		t.Errorf("afterwards: %+v", got)
	}
}

// For any run of requests, a client that hears only of changes knows what one that fetches
// everything knows, reads what it asks for, and gets every record.
func TestAClientWithASessionKnowsWhatAFullFetchTells(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 6
		c := New(Options{SessionsMax: 3, PartitionsMax: 20})
		truth, known := map[int32]Told{}, map[int32]Told{} // by partition: the log, and the client's picture of it
		wanted := map[int32]int64{}                        // offsets
		var session *Session
		now := int64(0)
		number := rapid.Int32Range(0, most-1)
		draw := func(what string) (list []Wish) {
			for _, n := range rapid.SliceOfDistinct(number, rapid.ID).Draw(t, what) {
				wish := wishes(n)[0]
				wish.Offset = rapid.Int64Range(0, 9).Draw(t, "offset")
				list = append(list, wish)
				wanted[n] = wish.Offset
			}
			return list
		}
		for step := range rapid.IntRange(1, 40).Draw(t, "requests") {
			now += rapid.Int64Range(0, EvictionMillisDefault).Draw(t, "passes")
			for n := range int32(most) { // the log goes on
				truth[n] = Told{HighWatermark: rapid.Int64Range(0, 2).Draw(t, "high watermark"), Start: rapid.Int64Range(0, 1).Draw(t, "start"),
					Bytes: rapid.SampledFrom([]int{0, 0, 9}).Draw(t, "bytes"), Failed: rapid.IntRange(0, 9).Draw(t, "fails") == 0}
			}
			if session == nil || rapid.IntRange(0, 9).Draw(t, "starts over") == 0 {
				if session != nil {
					c.End(session.ID)
				}
				clear(wanted)
				clear(known)
				list := draw("wishes")
				session = c.Create(now, int32(step)+1, false, list)
				if session == nil {
					continue // a full fetch without a session tells everything
				}
			} else {
				list := draw("changes")
				var forgotten []Partition
				for _, n := range rapid.SliceOfDistinct(number, rapid.ID).Draw(t, "forgotten") {
					forgotten = append(forgotten, Partition{Topic: "t", Number: n})
					delete(wanted, n)
					delete(known, n)
				}
				begun, err := c.Begin(now, session.ID, session.Epoch(), false, list, forgotten)
				if err != nil {
					t.Fatalf("step %d: %v", step, err)
				}
				if begun == nil {
					if len(wanted) > 0 {
						t.Fatalf("step %d: the session ended with %v wanted", step, wanted)
					}
					session = nil
					continue
				}
			}
			checkAnswer(t, step, session, truth, known, wanted)
			if got := c.Status(); got.Partitions != session.Len() || got.Sessions != 1 {
				t.Fatalf("step %d: status %+v with %d partitions", step, got, session.Len())
			}
		}
	})
}

// checkAnswer answers a request and compares what the client then knows.
func checkAnswer(t *rapid.T, step int, session *Session, truth, known map[int32]Told, wanted map[int32]int64) {
	read := make(map[int32]bool)
	var slots []int32
	for slot, ok := session.First(); ok; slot, ok = session.Next(slot) {
		wish := session.Wish(slot)
		if offset, asked := wanted[wish.Number]; !asked || offset != wish.Offset || read[wish.Number] {
			t.Fatalf("step %d: partition %d is read from %d, wanted are %v", step, wish.Number, wish.Offset, wanted)
		}
		read[wish.Number] = true
		slots = append(slots, slot)
	}
	if len(read) != len(wanted) {
		t.Fatalf("step %d: %v are read, wanted %v", step, read, wanted)
	}
	for _, slot := range slots {
		n := session.Wish(slot).Number
		told := session.Answer(slot, truth[n])
		if told {
			known[n] = truth[n]
		}
		if picture := known[n]; picture.HighWatermark != truth[n].HighWatermark || picture.Start != truth[n].Start || picture.Failed != truth[n].Failed {
			t.Fatalf("step %d: of partition %d the client knows %+v, the log is %+v", step, n, picture, truth[n])
		}
		if !told && truth[n].Bytes > 0 {
			t.Fatalf("step %d: the records of partition %d are not told", step, n)
		}
	}
}

// The steady state of a consumer: nothing is allocated.
func TestARequestOfASessionAllocatesNothing(t *testing.T) {
	c := newCache(1)
	list := wishes(0, 1, 2, 3)
	s := c.Create(0, 7, false, list)
	changed := []Wish{list[1]}
	if got := testing.AllocsPerRun(100, func() {
		if _, err := c.Begin(1, 7, s.Epoch(), false, changed, nil); err != nil {
			t.Fatal(err)
		}
		for slot, ok := s.First(); ok; slot, ok = s.Next(slot) {
			s.Answer(slot, Told{HighWatermark: 5})
		}
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
}
