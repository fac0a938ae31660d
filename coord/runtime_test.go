package coord_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"ringlog/coord"
)

// patience bounds every wait: it is reached only by a runtime that hangs.
const patience = 10 * time.Second

// ledger is a machine for tests: it keeps a sum. Requests are add, read, park and tell.
type ledger struct {
	sum    int64
	parked []uint64
	wakes  int64
	told   []string
}

type (
	add    struct{ value int64 } // answers the new sum, appends a record
	read   struct{}              // answers the sum, appends nothing
	park   struct{ until int64 } // is answered by a tick
	tell   struct{ what string } // a notice
	told   struct{}              // answers what was told
	break_ struct{}              // panics
	large  struct{ bytes int }   // appends a record of that size
)

func value(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

func (l *ledger) Replay(r coord.Record) error {
	if string(r.Key) == "bad" {
		return errors.New("cannot be read")
	}
	if string(r.Key) == "add" {
		l.sum += int64(binary.BigEndian.Uint64(r.Value))
	}
	return nil
}

func (l *ledger) Loaded(int64, *coord.Effects) { l.wakes = math.MaxInt64 }

func (l *ledger) Step(_ int64, q coord.Request, effects *coord.Effects) {
	switch body := q.Body.(type) {
	case *add:
		l.sum += body.value
		effects.Append(coord.Record{Key: []byte("add"), Value: value(body.value)})
		effects.Answer(q.Token, l.sum)
	case *read:
		effects.Answer(q.Token, l.sum)
	case *park:
		l.parked = append(l.parked, q.Token)
		l.wakes = body.until
	case *tell:
		l.told = append(l.told, body.what)
	case *told:
		effects.Answer(q.Token, slices.Clone(l.told))
	case *large:
		effects.Append(coord.Record{Key: []byte("large"), Value: make([]byte, body.bytes)})
		effects.Answer(q.Token, nil)
	case *break_:
		panic("a fault of ours")
	}
}

func (l *ledger) Tick(now int64, effects *coord.Effects) {
	if now < l.wakes {
		panic("ticked early")
	}
	for _, token := range l.parked {
		effects.Answer(token, "woken")
	}
	l.parked, l.wakes = nil, math.MaxInt64
}

func (l *ledger) NextMillis() int64 { return l.wakes }

// memoryLog is a coord.Log in memory whose appends end when the test says so.
type memoryLog struct {
	mu        sync.Mutex
	committed map[int32][]coord.Record
	held      []func(error) // appends that wait for the test; their records are committed by nil
	holding   bool
	loading   chan struct{} // loads wait for it to be closed, unless it is nil
	appended  chan int      // the records of each append
	batches   [][]coord.Record
}

func newLog() *memoryLog {
	return &memoryLog{committed: map[int32][]coord.Record{}, appended: make(chan int, 1000)}
}

func (l *memoryLog) Append(partition, _ int32, records []coord.Record, done func(error)) {
	records = slices.Clone(records)
	l.mu.Lock()
	end := func(err error) {
		if err == nil {
			l.mu.Lock()
			l.committed[partition] = append(l.committed[partition], records...)
			l.mu.Unlock()
		}
		done(err)
	}
	holding := l.holding
	l.batches = append(l.batches, records)
	if holding {
		l.held = append(l.held, end)
	}
	l.mu.Unlock()
	if !holding {
		end(nil)
	}
	l.appended <- len(records)
}

// hold has appends wait for release from now on.
func (l *memoryLog) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holding = true
}

// release ends the append that waits at a place with err.
func (l *memoryLog) release(at int, err error) {
	l.mu.Lock()
	end := l.held[at]
	l.held = slices.Delete(l.held, at, at+1)
	l.mu.Unlock()
	end(err)
}

// letGo ends the hold, and all that waits well.
func (l *memoryLog) letGo() {
	l.mu.Lock()
	held := l.held
	l.held, l.holding = nil, false
	l.mu.Unlock()
	for _, end := range held {
		end(nil)
	}
}

func (l *memoryLog) Load(ctx context.Context, partition, _ int32, visit func(coord.Record) error) error {
	l.mu.Lock()
	records, gate := slices.Clone(l.committed[partition]), l.loading
	l.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for _, r := range records {
		if err := visit(r); err != nil {
			return err
		}
	}
	return nil
}

// scene is a runtime of ledgers on a log in memory, with a clock of the test's.
type scene struct {
	testing.TB
	log     *memoryLog
	runtime *coord.Runtime
	clock   struct {
		sync.Mutex
		now int64
	}
}

func newScene(t testing.TB, o coord.Options) *scene {
	s := &scene{TB: t, log: newLog()}
	o.Log = s.log
	o.NewMachine = func(int32) coord.Machine { return &ledger{wakes: math.MaxInt64} }
	o.NowMillis = func() int64 {
		s.clock.Lock()
		defer s.clock.Unlock()
		return s.clock.now
	}
	s.runtime = coord.New(o)
	t.Cleanup(func() { s.runtime.Close() })
	return s
}

// pass lets time pass and wakes the runtime.
func (s *scene) pass(millis int64) {
	s.clock.Lock()
	s.clock.now += millis
	s.clock.Unlock()
	s.runtime.Notify(&tell{"tick"})
}

type reply struct {
	answer any
	err    error
}

// ask asks and does not wait.
func (s *scene) ask(partition int32, body any) <-chan reply {
	replies := make(chan reply, 2)
	s.runtime.Ask(partition, body, func(answer any, err error) { replies <- reply{answer, err} })
	return replies
}

func (s *scene) wait(replies <-chan reply) reply {
	s.Helper()
	select {
	case r := <-replies:
		return r
	case <-time.After(patience):
		s.Fatal("no answer")
		return reply{}
	}
}

// must returns the answer of a request that succeeds.
func (s *scene) must(partition int32, body any) any {
	s.Helper()
	r := s.wait(s.ask(partition, body))
	if r.err != nil {
		s.Fatal(r.err)
	}
	return r.answer
}

// until asks again until the coordinator has loaded.
func (s *scene) until(partition int32, body any) any {
	s.Helper()
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		r := s.wait(s.ask(partition, body))
		if r.err == nil {
			return r.answer
		}
		if !errors.Is(r.err, coord.ErrLoading) && !errors.Is(r.err, coord.ErrUnavailable) {
			s.Fatal(r.err)
		}
		s.pass(100)
	}
	s.Fatal("the coordinator does not come back")
	return nil
}

// silent fails the test if there is an answer. What would answer was asked before asked is answered.
func (s *scene) silent(replies <-chan reply, why string) {
	s.Helper()
	select {
	case r := <-replies:
		s.Fatalf("%s, but it is answered: %v %v", why, r.answer, r.err)
	default:
	}
}

// appends waits for the next append and returns its number of records.
func (s *scene) appends() int {
	s.Helper()
	select {
	case n := <-s.log.appended:
		return n
	case <-time.After(patience):
		s.Fatal("nothing is appended")
		return 0
	}
}

func TestAnswersLeaveWhenWhatTheyRestOnIsCommitted(t *testing.T) {
	s := newScene(t, coord.Options{})
	s.runtime.Lead(0, 1)
	s.until(0, &read{})
	s.log.hold()
	added := s.ask(0, &add{5})
	s.appends()
	// The state has changed already, and a reader is told of it, but not before the record is
	// committed: a crash could take it back.
	seen := s.ask(0, &read{})
	s.runtime.Lead(1, 1)
	s.until(1, &read{}) // the loop has come past both
	s.silent(added, "the record is not committed")
	s.silent(seen, "it rests on a record that is not committed")
	s.log.release(0, nil)
	if r := s.wait(added); r.answer != int64(5) {
		t.Fatalf("added: %v", r)
	}
	if r := s.wait(seen); r.answer != int64(5) {
		t.Fatalf("seen: %v", r)
	}
	s.log.letGo()
}

func TestAnAppendThatEndsEarlyWaitsForThoseBeforeIt(t *testing.T) {
	s := newScene(t, coord.Options{})
	s.runtime.Lead(0, 1)
	s.until(0, &read{})
	s.log.hold()
	first := s.ask(0, &add{1})
	s.appends()
	second := s.ask(0, &add{2})
	s.appends()
	s.log.release(1, nil)
	s.runtime.Lead(1, 1)
	s.until(1, &read{})
	s.silent(second, "an append before it is not committed")
	s.log.release(0, nil)
	if r := s.wait(first); r.answer != int64(1) {
		t.Fatalf("first: %v", r)
	}
	if r := s.wait(second); r.answer != int64(3) {
		t.Fatalf("second: %v", r)
	}
	s.log.letGo()
}

// What comes while the disk works shares the next append.
func TestRequestsShareAppends(t *testing.T) {
	s := newScene(t, coord.Options{})
	s.runtime.Lead(0, 1)
	s.until(0, &read{})
	s.log.hold()
	var asked []<-chan reply
	for range 2 { // two appends are under way
		asked = append(asked, s.ask(0, &add{1}))
		s.appends()
	}
	for range 100 {
		asked = append(asked, s.ask(0, &add{1}))
	}
	s.runtime.Lead(1, 1)
	s.until(1, &read{}) // all are stepped
	s.log.release(0, nil)
	if n := s.appends(); n != 100 {
		t.Fatalf("the next append has %d records, want 100", n)
	}
	s.log.letGo()
	for n, replies := range asked {
		if r := s.wait(replies); r.answer != int64(n+1) {
			t.Fatalf("request %d: %v", n, r)
		}
	}
}

func TestAFullBatchHoldsBackRequestsAndLosesNone(t *testing.T) {
	s := newScene(t, coord.Options{})
	s.runtime.Lead(0, 1)
	s.until(0, &read{})
	s.log.hold()
	var asked []<-chan reply
	for range 40 {
		asked = append(asked, s.ask(0, &large{100 << 10}))
	}
	asked = append(asked, s.ask(0, &add{7}))
	s.appends()
	s.appends()
	s.log.letGo()
	for _, replies := range asked[:40] {
		if r := s.wait(replies); r.err != nil {
			t.Fatal(r.err)
		}
	}
	if r := s.wait(asked[40]); r.answer != int64(7) {
		t.Fatalf("the last request: %v", r)
	}
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	for n, batch := range s.log.batches {
		if len(batch) > 4 {
			t.Errorf("append %d has %d records of 100 KiB", n, len(batch))
		}
	}
}

// Scenario 49: offsets not loaded at failover must not look like offsets that were never committed.
func TestNothingIsAnsweredFromAHalfLoadedLog(t *testing.T) {
	s := newScene(t, coord.Options{})
	s.log.committed[0] = []coord.Record{{Key: []byte("add"), Value: value(20)}, {Key: []byte("add"), Value: value(22)}}
	s.log.loading = make(chan struct{})
	if r := s.wait(s.ask(0, &read{})); !errors.Is(r.err, coord.ErrNotCoordinator) {
		t.Fatalf("before this broker leads: %v", r.err)
	}
	s.runtime.Lead(0, 1)
	if r := s.wait(s.ask(0, &read{})); !errors.Is(r.err, coord.ErrLoading) {
		t.Fatalf("while loading: %v %v", r.answer, r.err)
	}
	s.runtime.Notify(&tell{"while loading"})
	close(s.log.loading)
	if sum := s.until(0, &read{}); sum != int64(42) {
		t.Fatalf("loaded %v, want 42", sum)
	}
	heard := s.must(0, &told{}).([]string)
	if len(heard) == 0 || heard[0] != "while loading" {
		t.Fatalf("a notice that came while loading is lost: %v", heard)
	}
	s.runtime.Resign(0)
	if r := s.wait(s.ask(0, &read{})); !errors.Is(r.err, coord.ErrNotCoordinator) {
		t.Fatalf("after resigning: %v", r.err)
	}
}

func TestAFailedAppendThrowsTheMachineAwayAndLoadsTheLog(t *testing.T) {
	s := newScene(t, coord.Options{})
	s.runtime.Lead(0, 1)
	s.until(0, &read{})
	s.must(0, &add{10})
	s.appends()
	s.log.hold()
	waits := s.ask(0, &park{math.MaxInt64 - 1})
	lost := s.ask(0, &add{1})
	s.appends()
	behind := s.ask(0, &add{2})
	s.appends()
	s.log.release(0, errors.New("the disk is gone"))
	for name, replies := range map[string]<-chan reply{"lost": lost, "behind": behind, "parked": waits} {
		if r := s.wait(replies); !errors.Is(r.err, coord.ErrUnavailable) {
			t.Errorf("%s: %v %v, want ErrUnavailable", name, r.answer, r.err)
		}
	}
	// The second append is still under way. Loading now would miss it, if it should succeed.
	s.pass(100_000)
	if r := s.wait(s.ask(0, &read{})); !errors.Is(r.err, coord.ErrUnavailable) {
		t.Fatalf("it loads while an append is under way: %v %v", r.answer, r.err)
	}
	s.log.letGo()
	if sum := s.until(0, &read{}); sum != int64(12) {
		t.Fatalf("loaded %v, want 12: what the log has, 10 and the append that came through", sum)
	}
}

// The second append comes through, the first one does not: nothing is under way any more, and the log is loaded.
func TestAnAppendThatEndedBeforeTheFailureIsNotWaitedFor(t *testing.T) {
	s := newScene(t, coord.Options{})
	s.runtime.Lead(0, 1)
	s.until(0, &read{})
	s.log.hold()
	first := s.ask(0, &add{1})
	s.appends()
	second := s.ask(0, &add{2})
	s.appends()
	s.log.release(1, nil)
	s.log.release(0, errors.New("no space"))
	for name, replies := range map[string]<-chan reply{"first": first, "second": second} {
		if r := s.wait(replies); !errors.Is(r.err, coord.ErrUnavailable) {
			t.Errorf("%s: %v %v, want ErrUnavailable", name, r.answer, r.err)
		}
	}
	if sum := s.until(0, &read{}); sum != int64(2) {
		t.Fatalf("loaded %v, want 2", sum)
	}
	s.log.letGo()
}

func TestALogThatCannotBeReadIsTriedAgainAfterAPause(t *testing.T) {
	s := newScene(t, coord.Options{})
	s.log.committed[0] = []coord.Record{{Key: []byte("bad")}}
	s.runtime.Lead(0, 1)
	for s.runtime.Metrics().LoadFailures.Load() == 0 {
		s.wait(s.ask(0, &read{}))
	}
	if r := s.wait(s.ask(0, &read{})); !errors.Is(r.err, coord.ErrUnavailable) {
		t.Fatalf("a log that cannot be read: %v %v", r.answer, r.err)
	}
	s.log.mu.Lock()
	s.log.committed[0] = nil // somebody has mended it
	s.log.mu.Unlock()
	s.until(0, &read{})
}

func TestAPanicCostsTheMachineAndNotTheProcess(t *testing.T) {
	s := newScene(t, coord.Options{})
	s.runtime.Lead(0, 1)
	s.runtime.Lead(1, 1)
	s.until(0, &read{})
	s.until(1, &read{})
	s.must(0, &add{3})
	if r := s.wait(s.ask(0, &break_{})); !errors.Is(r.err, coord.ErrUnavailable) {
		t.Fatalf("%v %v", r.answer, r.err)
	}
	s.must(1, &add{1}) // the other partition does not notice
	if sum := s.until(0, &read{}); sum != int64(3) {
		t.Fatalf("loaded %v, want 3", sum)
	}
}

func TestTimeWakesAMachineAtItsTimeAndNotBefore(t *testing.T) {
	s := newScene(t, coord.Options{})
	s.runtime.Lead(0, 1)
	s.until(0, &read{})
	s.clock.Lock()
	at := s.clock.now + 1000
	s.clock.Unlock()
	parked := s.ask(0, &park{at})
	s.pass(999)
	s.must(0, &read{})
	s.silent(parked, "its time has not come")
	s.pass(1)
	if r := s.wait(parked); r.answer != "woken" {
		t.Fatalf("%v", r)
	}
}

func TestANewEpochLoadsAnew(t *testing.T) {
	s := newScene(t, coord.Options{})
	s.runtime.Lead(0, 1)
	s.until(0, &read{})
	parked := s.ask(0, &park{math.MaxInt64 - 1})
	s.runtime.Lead(0, 1) // the same: nothing happens
	s.must(0, &add{4})
	s.silent(parked, "nothing has changed")
	s.runtime.Lead(0, 2)
	if r := s.wait(parked); !errors.Is(r.err, coord.ErrNotCoordinator) {
		t.Fatalf("parked under the old epoch: %v %v", r.answer, r.err)
	}
	if sum := s.until(0, &read{}); sum != int64(4) {
		t.Fatalf("loaded %v, want 4", sum)
	}
	if loads := s.runtime.Metrics().Loads.Load(); loads != 2 {
		t.Fatalf("%d loads, want 2", loads)
	}
}

func TestTooManyRequestsAreRefusedAtOnce(t *testing.T) {
	s := newScene(t, coord.Options{RequestsMax: 10})
	s.runtime.Lead(0, 1)
	s.until(0, &read{})
	s.log.hold()
	var asked []<-chan reply
	refused := 0
	for range 100 {
		replies := s.ask(0, &large{1 << 20})
		select {
		case r := <-replies:
			if !errors.Is(r.err, coord.ErrUnavailable) {
				t.Fatal(r.err)
			}
			refused++
		default:
			asked = append(asked, replies)
		}
	}
	if refused == 0 {
		t.Fatal("100 requests wait where 10 may")
	}
	s.log.letGo()
	for _, replies := range asked {
		if r := s.wait(replies); r.err != nil {
			t.Fatal(r.err)
		}
	}
	s.must(0, &add{1}) // all places are free again
	if n := s.runtime.Waiting(); n != 0 {
		t.Fatalf("%d requests are said to wait", n)
	}
}

func TestCloseAnswersWhoeverWaits(t *testing.T) {
	s := newScene(t, coord.Options{})
	s.runtime.Lead(0, 1)
	s.until(0, &read{})
	s.log.hold()
	parked := s.ask(0, &park{math.MaxInt64 - 1})
	appending := s.ask(0, &add{1})
	s.appends()
	s.log.loading = make(chan struct{}) // and a load is under way
	s.runtime.Lead(1, 1)
	s.runtime.Close()
	for name, replies := range map[string]<-chan reply{"parked": parked, "appending": appending, "later": s.ask(0, &read{})} {
		if r := s.wait(replies); !errors.Is(r.err, coord.ErrNotCoordinator) {
			t.Errorf("%s: %v %v", name, r.answer, r.err)
		}
	}
	s.log.letGo()
	s.runtime.Close() // again is harmless
}

// The property that all else rests on: at any moment, what was acknowledged is in the log. Appends end
// in any order and now and then fail.
func TestWhatWasAcknowledgedCanBeReplayed(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { acknowledgedIsReplayable(t, seed) })
	}
}
