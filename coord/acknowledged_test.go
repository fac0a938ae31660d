package coord_test

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"ringlog/coord"
)

// acknowledgedIsReplayable adds numbers, each a bit of its own, from several sides while appends end in any order
// and some fail. The sum of the log must have every bit that was acknowledged, and a reader must
// never be shown a bit that the log does not have.
func acknowledgedIsReplayable(t *testing.T, seed uint64) {
	s := newScene(t, coord.Options{})
	random := rand.New(rand.NewPCG(seed, 1))
	s.runtime.Lead(0, 1)
	s.until(0, &read{})
	s.log.hold()

	var mu sync.Mutex
	acknowledged, shown, open := int64(0), int64(0), 0
	for bit := range 40 {
		mask := int64(1) << bit
		mu.Lock()
		open += 2
		mu.Unlock()
		s.runtime.Ask(0, &add{mask}, func(_ any, err error) {
			mu.Lock()
			defer mu.Unlock()
			open--
			if err == nil {
				acknowledged |= mask
			}
		})
		s.runtime.Ask(0, &read{}, func(answer any, err error) {
			// On the loop: what is committed now cannot be less than when the answer was let go.
			s.log.mu.Lock()
			stored := s.log.sumLocked(0)
			s.log.mu.Unlock()
			mu.Lock()
			defer mu.Unlock()
			open--
			if err == nil {
				shown |= answer.(int64)
				if answer.(int64)&^stored != 0 {
					t.Errorf("a reader was shown %b, and the log has %b", answer, stored)
				}
			}
		})
		s.wait(s.ask(1, &read{})) // a turn of the loop
		for random.IntN(3) > 0 {
			if !s.log.endOne(random) {
				continue
			}
			s.recover(random)
		}
		s.pass(200)
	}
	s.recover(random)
	s.log.letGo()
	mu.Lock()
	defer mu.Unlock()
	if open != 0 {
		t.Fatalf("%d requests have no answer", open)
	}
	replayed := s.until(0, &read{}).(int64)
	if lost := (acknowledged | shown) &^ replayed; lost != 0 {
		t.Fatalf("acknowledged or shown, and lost: %b", lost)
	}
	if acknowledged == 0 {
		t.Fatal("nothing was acknowledged: this has shown nothing")
	}
}

// recover ends all appends, until there is a new machine that answers.
func (s *scene) recover(random *rand.Rand) {
	s.Helper()
	for range 100_000 {
		asked := s.ask(0, &read{})
		for answered := false; !answered; {
			s.log.endOne(random)
			s.wait(s.ask(1, &read{})) // a turn of the loop
			select {
			case r := <-asked:
				if r.err == nil {
					return
				}
				answered = true
			default:
			}
		}
		s.pass(100)
	}
	s.Fatal("the coordinator does not come back")
}

// inFlight is how many appends have not ended.
func (l *memoryLog) inFlight() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held)
}

// endOne ends one of the appends under way, as likely any of them, now and then badly; then it returns true.
func (l *memoryLog) endOne(random *rand.Rand) (failed bool) {
	count := l.inFlight()
	if count == 0 {
		return false
	}
	var err error
	if random.IntN(10) == 0 {
		err = errors.New("no space")
	}
	l.release(random.IntN(count), err)
	return err != nil
}

// sumLocked is what a replay of a partition comes to.
func (l *memoryLog) sumLocked(partition int32) (sum int64) {
	for _, r := range l.committed[partition] {
		sum += int64(binary.BigEndian.Uint64(r.Value))
	}
	return sum
}
