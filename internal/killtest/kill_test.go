package killtest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"testing"
	"time"

	"ringlog/internal/loopfs"
	"ringlog/internal/ringlogtest"
)

var (
	killsFlag = flag.Int("kills", 6, "how often the broker is killed, for each kind of disk and number of partitions")
	seedFlag  = flag.Uint64("seed", 0, "seed of the schedule; 0 draws one")
)

const ringRefused = "this system refuses io_uring, so only the portable disk can be tried; " +
	"on Linux outside of containers that block it, this test runs"

func TestMain(m *testing.M) {
	loopfs.Isolate()
	ringlogtest.Main(m)
}

// TestKillOnTheRing and its twin prove the durability contract against SIGKILL
// (docs/durability.md): no acknowledged record is lost, moved, changed, doubled
// or reordered, and nothing is taken back that a consumer was shown.
func TestKillOnTheRing(t *testing.T) {
	if ringlogtest.RingRefused() {
		t.Skip(ringRefused)
	}
	testKill(t, "uring", subjects())
}

func TestKillOnThePortableDisk(t *testing.T) { testKill(t, "portable", subjects()) }

// TestKillManyPartitions kills what commits of many partitions share: with the
// journal, which is small so that it goes round and is trimmed between two kills,
// and without it. Scenarios 16, 17 and 35 of docs/reliability.md.
func TestKillManyPartitions(t *testing.T) {
	if ringlogtest.RingRefused() {
		t.Skip(ringRefused)
	}
	for _, of := range []struct {
		partitions int32
		journal    string
	}{{1, "1MiB"}, {384, "1MiB"}, {2000, "1MiB"}, {384, "0"}} {
		t.Run(fmt.Sprintf("%d partitions journal %s", of.partitions, of.journal), func(t *testing.T) {
			testKill(t, "uring", []*subject{wide(of.partitions)}, "--journal-bytes", of.journal)
		})
	}
}

// testKill kills a broker that has some subjects, again and again.
func testKill(t *testing.T, io string, subjects []*subject, flags ...string) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("again: go test ./internal/killtest -v -run '%s' -args -kills=%d -seed=%d", t.Name(), *killsFlag, seed)
	random := rand.New(rand.NewPCG(seed, 0))

	broker := ringlogtest.Start(t, ringlogtest.Options{IO: io, Flags: flags})
	for i, s := range subjects {
		s.create(t, broker.Address, int32(10*i))
	}
	watch(t, broker.Address, subjects)

	var starts []time.Duration
	var trims float64
	for kills := 0; kills < *killsFlag && !t.Failed(); {
		load := startLoad(t, subjects, random)
		pause(t, 20*time.Millisecond, 500*time.Millisecond, random)
		trims += broker.Metric("ringlog_engine_journal_trims_total")
		broker.Kill()
		kills++
		if kills%5 == 1 {
			verifyWhole(t, broker)
		}
		// Now and then recovery itself is killed: it must be possible to begin again.
		for kills < *killsFlag && random.IntN(3) == 0 {
			broker.Launch()
			pause(t, 0, 80*time.Millisecond, random)
			broker.Kill()
			kills++
		}
		began := time.Now()
		broker.Restart()
		starts = append(starts, time.Since(began))
		pause(t, 0, 100*time.Millisecond, random)
		load.finish()
		// And now and then it is stopped as it should be, which must not be less safe.
		if random.IntN(5) == 0 {
			broker.Stop()
			broker.Restart()
		}
		readAndCheck(t, broker.Address, subjects)
	}
	for _, s := range subjects {
		s.reread()
	}
	readAndCheck(t, broker.Address, subjects)
	broker.Stop()
	slices.Sort(starts)
	t.Logf("%d kills: %s; %.0f trims of the journal; a start after a kill takes %s, at worst %s", *killsFlag, totals(subjects), trims,
		starts[len(starts)/2].Round(time.Millisecond), starts[len(starts)-1].Round(time.Millisecond))
}

// verifyWhole has the files of a broker that was killed read before a start repairs them: a kill tears,
// and damages nothing.
func verifyWhole(t *testing.T, broker *ringlogtest.Broker) {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), ringlogtest.Binary(t), "dump", "--verify", "--data-dir", broker.DataDirectory).CombinedOutput()
	if err != nil {
		t.Errorf("ringlog dump --verify: %v\n%s", err, output)
	}
}

func readAndCheck(t *testing.T, address string, subjects []*subject) {
	t.Helper()
	for _, s := range subjects {
		s.read(t, address)
		s.check(t)
	}
}

// pause lets the load run for a random time. It waits for nothing: the moment
// of a kill is what the test draws.
func pause(t *testing.T, atLeast, atMost time.Duration, random *rand.Rand) {
	select {
	case <-time.After(atLeast + time.Duration(random.Int64N(int64(atMost-atLeast)))):
	case <-t.Context().Done():
	}
}
