package killtest

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"ringlog/internal/ringlogtest"
)

var (
	killsFlag = flag.Int("kills", 3, "how often the broker is killed, for each kind of disk")
	seedFlag  = flag.Uint64("seed", 0, "seed of the schedule; 0 draws one")
)

const ringRefused = "this system refuses io_uring, so only the portable disk can be tried; " +
	"on Linux outside of containers that block it, this test runs"

func TestMain(m *testing.M) { ringlogtest.Main(m) }

// TestKillOnTheRing and its twin prove the durability contract against SIGKILL
// (docs/durability.md): no acknowledged record is lost, moved, changed, doubled
// or reordered, and nothing is taken back that a consumer was shown.
func TestKillOnTheRing(t *testing.T) {
	if ringlogtest.RingRefused() {
		t.Skip(ringRefused)
	}
	testKill(t, "uring")
}

func TestKillOnThePortableDisk(t *testing.T) { testKill(t, "portable") }

func testKill(t *testing.T, io string) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("schedule: -args -kills=%d -seed=%d", *killsFlag, seed)
	random := rand.New(rand.NewPCG(seed, 0))

	broker := ringlogtest.Start(t, ringlogtest.Options{IO: io})
	subjects := subjects()
	for i, s := range subjects {
		s.create(t, broker.Address, int32(10*i))
	}
	watch(t, broker.Address, subjects)

	for kills := 0; kills < *killsFlag && !t.Failed(); {
		load := startLoad(t, subjects, random)
		pause(t, 20*time.Millisecond, 500*time.Millisecond, random)
		broker.Kill()
		kills++
		// Now and then recovery itself is killed: it must be possible to begin again.
		for kills < *killsFlag && random.IntN(3) == 0 {
			broker.Launch()
			pause(t, 0, 80*time.Millisecond, random)
			broker.Kill()
			kills++
		}
		broker.Restart()
		pause(t, 0, 100*time.Millisecond, random)
		load.finish()
		// And now and then it is stopped as it should be, which must not be less safe.
		if random.IntN(5) == 0 {
			broker.Stop()
			broker.Restart()
		}
		for _, s := range subjects {
			s.read(t, broker.Address)
			s.check(t)
		}
	}
	for _, s := range subjects {
		s.reread()
		s.read(t, broker.Address)
		s.check(t)
	}
	broker.Stop()
	t.Logf("%d kills: %s", *killsFlag, totals(subjects))
}

// pause lets the load run for a random time. It waits for nothing: the moment
// of a kill is what the test draws.
func pause(t *testing.T, atLeast, atMost time.Duration, random *rand.Rand) {
	select {
	case <-time.After(atLeast + time.Duration(random.Int64N(int64(atMost-atLeast)))):
	case <-t.Context().Done():
	}
}
