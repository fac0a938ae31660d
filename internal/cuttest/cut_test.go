package cuttest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ringlog/engine"
	"ringlog/engine/disk"
	"ringlog/engine/disk/backend"
	"ringlog/engine/disk/uring"
	"ringlog/internal/loopfs"
)

var (
	cutsFlag = flag.Int("cuts", 12, "how often the power of each kind of file system is cut")
	seedFlag = flag.Uint64("seed", 0, "seed of loads and aims; 0 draws one")

	journalFlag = flag.Int64("journal", 0, "bytes of the commit journal under which the engine runs; 0 is none")
)

func TestMain(m *testing.M) {
	loopfs.Isolate()
	os.Exit(m.Run())
}

// The contract of docs/durability.md against power cuts, on the kernel's own
// file systems. Scenarios 1, 3, 4, 5, 9, 11, 16, 17 and 35 of docs/reliability.md,
// as far as a cut of this kind can show them (see the package comment: an
// overwrite that nobody flushed survives it, so the crash disk plays those).
func TestCutExt4(t *testing.T) { testCuts(t, loopfs.Ext4) }

func TestCutXFS(t *testing.T) { testCuts(t, loopfs.XFS) }

const (
	users = 4
	// fileSystemBytes is more than the logs of all users ever take.
	fileSystemBytes = 1 << 30
	// nestedMax is how often in a row a recovery is cut (scenario 16).
	nestedMax = 5
)

func testCuts(t *testing.T, kind loopfs.Kind) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("again: go test ./internal/cuttest -run %s -v -args -cuts=%d -seed=%d", t.Name(), *cutsFlag, seed)
	s := newStory(t, kind, seed)
	began := time.Now()
	if err := s.tell(*cutsFlag); err != nil {
		t.Fatalf("after %d cuts (%s): %v", s.cuts, s.tally(), err)
	}
	t.Logf("%s: %d power cuts in %s: %s; %s", kind, s.cuts, time.Since(began).Round(time.Millisecond), s.tally(), &s.counts)
}

// TestALyingDiskIsFound: cuts that no missing sync could fail would show
// nothing. The disk claims to have done one kind of sync and does none. (On ext4
// a missing fdatasync is seldom seen: whatever else commits the journal makes up
// for it.)
func TestALyingDiskIsFound(t *testing.T) {
	for _, of := range []struct {
		kind loopfs.Kind
		lie  disk.Kind
	}{{loopfs.Ext4, disk.SyncDirectory}, {loopfs.XFS, disk.SyncDirectory}, {loopfs.XFS, disk.Flush}} {
		t.Run(fmt.Sprintf("%s %s", of.kind, of.lie), func(t *testing.T) {
			s := newStory(t, of.kind, 1)
			s.lie = of.lie
			err := s.tell(liesMax)
			if err == nil {
				t.Fatalf("%d cuts found nothing: %s", s.cuts, s.tally())
			}
			t.Logf("after %d cuts: %v", s.cuts, err)
		})
	}
}

// liesMax is how many cuts may fail to notice a lie.
const liesMax = 300

// story is one file system's way through many cuts.
type story struct {
	*testing.T
	fs    *loopfs.FileSystem
	mode  string
	dice  *rand.Rand
	lie   disk.Kind // what the disk only claims to do; 0 is nothing
	users []*user
	run   *run // the present one
	found map[engine.LogID]contents

	lives, cuts int
	reasons     map[string]int
	counts      counts
}

func newStory(t *testing.T, kind loopfs.Kind, seed uint64) *story {
	hash := fnv.New64()
	hash.Write([]byte(kind))
	s := &story{
		T: t, fs: loopfs.New(t, kind, fileSystemBytes), mode: backend.Uring,
		dice: rand.New(rand.NewPCG(seed, hash.Sum64())), reasons: map[string]int{},
	}
	if err := uring.Probe(); err != nil {
		s.mode = backend.Portable
		t.Logf("this kernel or container grants no io_uring, so the power is cut under the portable disk: %v", err)
	}
	for i := range users {
		s.users = append(s.users, &user{number: int32(i + 1), dice: rand.New(rand.NewPCG(seed, uint64(i))), counts: &s.counts})
	}
	t.Cleanup(func() { // of a story that ended badly: nothing may be open when its file system goes
		if s.run != nil {
			s.run.pull()
			s.run.end()
		}
	})
	return s
}

// tell goes through some cuts. The error is a broken promise.
func (s *story) tell(cuts int) error {
	if err := s.start(aim{}); err != nil {
		return err
	}
	for s.cuts < cuts && !s.Failed() {
		for _, chapter := range []func() error{s.live, s.recover, s.again, s.retry} {
			if err := chapter(); err != nil {
				return err
			}
		}
	}
	s.end()
	return nil
}

// start starts an engine. Without an aim nothing may go wrong; with one the run
// may have no engine.
func (s *story) start(a aim) error {
	r, err := start(s.T, s.fs, s.mode, a, s.lie, s.dice.IntN(2) == 0)
	s.run = r
	if err != nil && !r.cutting.Load() {
		return fmt.Errorf("the engine does not start: %w", err)
	}
	return nil
}

// live restarts the engine with an aim, lets users work until the power is cut,
// and mounts again.
func (s *story) live() error {
	s.end()
	a := drawAim(s.lives, s.dice)
	s.lives++
	if err := s.start(a); err != nil {
		return err
	}
	errs := make([]error, len(s.users))
	var work sync.WaitGroup
	for i, u := range s.users {
		if s.run.engine == nil {
			break
		}
		u.run, u.flight, u.failed, u.log = s.run, nil, nil, nil
		work.Go(func() {
			if errs[i] = u.reopen(); errs[i] == nil {
				errs[i] = u.work()
			}
		})
	}
	work.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("in a life that was to be cut after %s: %w", a, err)
	}
	s.dark(a.name)
	return nil
}

// dark ends a run whose power is cut, and mounts the file system again.
func (s *story) dark(reason string) {
	s.Helper()
	<-s.run.cut
	s.end()
	s.cuts++
	s.reasons[reason]++
	s.fs.Remount()
}

func (s *story) end() {
	s.Helper()
	if r := s.run; r != nil {
		s.run = nil
		r.end()
	}
}

// reopen opens the user's log to work on with it.
func (u *user) reopen() error {
	ctx, done := context.WithTimeout(context.Background(), patience)
	defer done()
	for _, l := range u.ledgers {
		if l.Deleted == Done {
			continue
		}
		log, err := u.engine.Open(ctx, spec(l, true))
		if err != nil {
			return u.excuse(err)
		}
		u.log = log
		if err := u.engine.Lead(ctx, l.ID, u.nextEpoch()); err != nil {
			return u.excuse(err)
		}
	}
	return nil
}

// nextEpoch is above every epoch that any start led under.
func (u *user) nextEpoch() int32 {
	u.epoch++
	return u.epoch
}

// recover starts the engine on what the cut left, which may be cut too, and
// compares all that it finds with the ledgers.
func (s *story) recover() error {
	for nested := 0; nested < nestedMax && s.dice.IntN(3) == 0; nested++ {
		if err := s.start(drawRecoveryAim(s.dice)); err != nil {
			return err
		}
		if s.run.engine != nil {
			if _, err := s.open(); err != nil && !s.run.cutting.Load() {
				return err
			}
		}
		if s.run.disarm() {
			s.end() // it was not reached: a clean stop, then
			continue
		}
		s.dark("in a recovery")
	}
	if err := s.start(aim{}); err != nil {
		return err
	}
	found, err := s.open()
	if err != nil {
		return err
	}
	s.found = found
	for _, u := range s.users {
		for _, l := range u.ledgers {
			if err := s.compare(l); err != nil {
				return err
			}
		}
	}
	return nil
}

// compare holds what was found of a log against its ledger, which adopts it.
func (s *story) compare(l *Ledger) error {
	c, there := s.found[l.ID]
	switch {
	case !there && l.Deleted == Never && l.Created == Done:
		return fmt.Errorf("%s was created and is gone", l.Label)
	case there && l.Deleted == Done:
		return fmt.Errorf("%s was deleted and is back", l.Label)
	case !there:
		l.Created, l.Deleted = Done, Done // it never was, or is no more
		return nil
	}
	if err := l.Check(c.frontiers, c.batches); err != nil {
		return err
	}
	l.Adopt(c.frontiers, c.batches)
	return nil
}

// open opens every log that may be there and reads all of it.
func (s *story) open() (map[engine.LogID]contents, error) {
	found := map[engine.LogID]contents{}
	ctx, done := context.WithTimeout(context.Background(), patience)
	defer done()
	for _, u := range s.users {
		u.log = nil
		for _, l := range u.ledgers {
			log, err := s.run.engine.Open(ctx, spec(l, false))
			if errors.Is(err, engine.ErrUnknownLog) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("open %s: %w", l.Label, err)
			}
			status, err := s.run.engine.Status(ctx, l.ID)
			if err == nil {
				err = status.Err
			}
			if err != nil {
				return nil, fmt.Errorf("%s opens with an error: %w", l.Label, err)
			}
			c, err := s.run.readAll(l, log)
			if err != nil {
				return nil, err
			}
			found[l.ID] = c
			if l.Deleted != Done {
				u.log = log
			}
		}
	}
	return found, nil
}

// again starts the engine once more, after a clean stop or after a power cut
// right behind the recovery: the second start must find the same bytes.
func (s *story) again() error {
	if s.dice.IntN(2) == 0 {
		s.run.pull()
		s.dark("right after a recovery")
	} else {
		s.end()
	}
	if err := s.start(aim{}); err != nil {
		return err
	}
	second, err := s.open()
	if err != nil {
		return err
	}
	for _, u := range s.users {
		for _, l := range u.ledgers {
			first, there := s.found[l.ID]
			now, still := second[l.ID]
			if there != still || first.String() != now.String() {
				return fmt.Errorf("the first start finds of %s %v (there: %t), the second %v (there: %t)", l.Label, first, there, now, still)
			}
		}
	}
	return nil
}

// retry forgets the logs that are no more, sends the last batches of each
// producer again (scenario 35), and lets it go on.
func (s *story) retry() error {
	for _, u := range s.users {
		u.run, u.flight, u.failed = s.run, nil, nil
		u.ledgers = u.alive()
		if len(u.ledgers) == 0 {
			continue
		}
		if err := u.retry(); err != nil {
			return err
		}
	}
	return nil
}

// alive returns the ledgers of logs that are there.
func (u *user) alive() []*Ledger {
	var alive []*Ledger
	for _, l := range u.ledgers {
		if l.Deleted != Done {
			alive = append(alive, l)
		}
	}
	return alive
}

func (u *user) retry() error {
	l := u.ledgers[len(u.ledgers)-1]
	ctx, done := context.WithTimeout(context.Background(), patience)
	defer done()
	if err := u.engine.Lead(ctx, l.ID, u.nextEpoch()); err != nil {
		return err
	}
	next := u.log.Frontiers().Next
	for _, p := range l.Retries() {
		q := u.newRequest()
		q.Appends = []engine.Append{{Log: u.log, Batch: p.Batch.Bytes()}}
		u.engine.Append(&q.AppendGroup)
		<-q.answered
		if a := q.Appends[0]; a.Err != nil || a.BaseOffset != p.Base {
			return fmt.Errorf("a retry of batch %d of %s, which is at %d, is answered with offset %d, error %v", p.Batch.number, l.Label, p.Base, a.BaseOffset, a.Err)
		}
	}
	if now := u.log.Frontiers().Next; now != next {
		return fmt.Errorf("retries were appended: %s went from %d to %d", l.Label, next, now)
	}
	u.submit()
	return u.settle(0)
}

// tally says what the cuts hit.
func (s *story) tally() string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(s.reasons)) {
		parts = append(parts, fmt.Sprintf("%s %d", reason, s.reasons[reason]))
	}
	return strings.Join(parts, ", ")
}
