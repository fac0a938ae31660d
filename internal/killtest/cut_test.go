package killtest

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"ringlog/internal/loopfs"
	"ringlog/internal/ringlogtest"
)

var cutsFlag = flag.Int("cuts", 5, "how often the power of each kind of file system is cut")

// TestCutExt4 and its twin cut the power of the file system that has the whole
// data directory, records and metadata, of the real binary. Scenarios 1, 3, 4, 16,
// 30 and 35 of docs/reliability.md, as far as such a cut can show them (see loopfs).
func TestCutExt4(t *testing.T) { testCut(t, loopfs.Ext4) }

func TestCutXFS(t *testing.T) { testCut(t, loopfs.XFS) }

const (
	// cutBytes and cutBytesEach are more than the records of all lives, or of one, take.
	cutBytes, cutBytesEach = 1 << 30, 128 << 20
	// latePatience is how long somebody waits for an answer that must not come.
	latePatience = 300 * time.Millisecond
)

// blackout is a broker and the file system whose power is cut under it.
type blackout struct {
	*testing.T
	fs       *loopfs.FileSystem
	broker   *ringlogtest.Broker
	plug     *plug // of all clients whose answers are promises
	subjects []*subject
	churn    *churn
	dice     *rand.Rand
	cuts     int
}

func testCut(t *testing.T, kind loopfs.Kind) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("again: go test ./internal/killtest -v -run %s -args -cuts=%d -seed=%d", t.Name(), *cutsFlag, seed)
	b := &blackout{
		T: t, fs: loopfs.New(t, kind, cutBytes+int64(*cutsFlag)*cutBytesEach), plug: newPlug(),
		churn: &churn{topics: NewTopics()}, dice: rand.New(rand.NewPCG(seed, 1)),
	}
	b.broker = ringlogtest.Start(t, ringlogtest.Options{DataDirectory: filepath.Join(b.fs.Path, "data")})
	for _, s := range subjects() {
		if s.topic == "relaxed" {
			continue // promises nothing
		}
		s.options = append(s.options, kgo.Dialer(b.plug.dial))
		s.create(t, b.broker.Address, int32(10*len(b.subjects)))
		b.subjects = append(b.subjects, s)
	}
	watch(t, b.broker.Address, b.subjects, kgo.Dialer(b.plug.dial))
	for b.cuts < *cutsFlag && !t.Failed() {
		b.live()
	}
	for _, s := range b.subjects {
		s.reread()
	}
	b.check()
	b.broker.Stop()
	t.Logf("%d power cuts of %s: %s; %d topics created, %d deleted, %d records in them", b.cuts, kind, totals(b.subjects),
		b.churn.created.Load(), b.churn.deleted.Load(), b.churn.records.Load())
}

// live works until the power is cut, starts again on what is left, and looks for
// everything that was promised.
func (b *blackout) live() {
	load := startLoad(b.T, b.subjects, b.dice)
	life := b.churn.start(b.T, b.broker.Address, b.plug, rand.New(rand.NewPCG(b.dice.Uint64(), b.dice.Uint64())))
	pause(b.T, 20*time.Millisecond, 500*time.Millisecond, b.dice)
	b.plug.pull()
	b.cut()
	if b.dice.IntN(2) == 0 {
		b.tooLate()
	}
	b.broker.Bury()
	life.finish()
	b.fs.Remount()
	for b.cuts < *cutsFlag && b.dice.IntN(3) == 0 { // in a recovery
		b.broker.Launch()
		pause(b.T, 0, 80*time.Millisecond, b.dice)
		b.cut()
		b.broker.Bury()
		b.fs.Remount()
	}
	b.broker.Restart()
	b.plug.put()
	pause(b.T, 0, 100*time.Millisecond, b.dice)
	load.finish()
	b.check()
}

func (b *blackout) cut() {
	b.Helper()
	if err := b.fs.Cut(); err != nil {
		b.Fatal(err)
	}
	b.cuts++
}

// tooLate asks for what can no longer be done. A broker that says nothing, or
// nothing any more, is right.
func (b *blackout) tooLate() {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), latePatience)
	defer cancel()
	client := newOnceClient(b.T, b.broker.Address)
	defer client.Close()
	for _, s := range b.subjects {
		if err := s.sendOnce(ctx, client); err == nil {
			b.Errorf("a record of %s was acknowledged after the cut", s.topic)
		}
	}
	topic := fmt.Sprintf("late-%d", b.cuts)
	if _, err := kadm.NewClient(client).CreateTopic(ctx, 1, 1, nil, topic); err == nil {
		b.Errorf("topic %s was created after the cut", topic)
	}
}

func (b *blackout) check() {
	b.Helper()
	readAndCheck(b.T, b.broker.Address, b.subjects)
	b.churn.check(b.T, b.broker.Address)
}
