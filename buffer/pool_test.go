package buffer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"unsafe"
)

// newTestPool returns a checked pool that must have everything back at the end.
func newTestPool(t testing.TB, limitBytes int64) *Pool {
	t.Helper()
	p := NewPool(t.Name(), limitBytes)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func mustPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		got, _ := recover().(string)
		if !strings.Contains(got, want) {
			t.Errorf("panicked with %q, want %q", got, want)
		}
	}()
	f()
}

func TestLimitIsRoundedToWhatTheAllocatorNeeds(t *testing.T) {
	for _, c := range []struct{ ask, limit, max int64 }{
		{1, 4 << 10, 4 << 10},
		{4<<10 + 1, 8 << 10, 8 << 10},
		{12 << 10, 12 << 10, 8 << 10},
		{2<<20 - 1, 2 << 20, 2 << 20},
		{3 << 20, 4 << 20, 4 << 20},
		{100 << 20, 100 << 20, 64 << 20},
		{300 << 20, 300 << 20, 128 << 20},
	} {
		p := newPool("limit", c.ask, false)
		if p.LimitBytes() != c.limit || int64(p.MaxBytes()) != c.max {
			t.Errorf("asked for %d: limit %d, largest %d; want %d and %d", c.ask, p.LimitBytes(), p.MaxBytes(), c.limit, c.max)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	mustPanic(t, "limit of 0", func() { NewPool("none", 0) })
}

func TestBuffersAreAlignedPowersOfTwo(t *testing.T) {
	p := newTestPool(t, 8<<20)
	for _, c := range []struct{ ask, want int }{
		{0, 4096}, {1, 4096}, {4096, 4096}, {4097, 8192}, {65536, 65536}, {65537, 131072}, {3 << 20, 4 << 20},
	} {
		b := p.TryGet(c.ask)
		got := b.Bytes()
		if len(got) != c.want || cap(got) != c.want {
			t.Errorf("asked for %d: got %d (cap %d), want %d", c.ask, len(got), cap(got), c.want)
		}
		if at := uintptr(unsafe.Pointer(&got[0])); at%uintptr(min(c.want, hugePageBytes)) != 0 {
			t.Errorf("%d bytes at %#x are not aligned to their size", c.want, at)
		}
		if p.InUseBytes() != int64(c.want) {
			t.Errorf("in use: %d, want %d", p.InUseBytes(), c.want)
		}
		b.Release()
	}
	if p.InUseBytes() != 0 {
		t.Errorf("in use after everything came back: %d", p.InUseBytes())
	}
}

func TestMemoryComesBackWithTheLastReference(t *testing.T) {
	p := newTestPool(t, 4096)
	b := p.TryGet(1)
	if b.Retain() != b {
		t.Error("Retain returned another buffer")
	}
	b.Release()
	if p.TryGet(1) != nil {
		t.Fatal("the memory was handed out while a reference was left")
	}
	b.Release()
	again := p.TryGet(1)
	if again == nil {
		t.Fatal("the memory did not come back with the last reference")
	}
	again.Release()
}

func TestMisuseOfAReleasedBufferPanics(t *testing.T) {
	p := newTestPool(t, 1<<20)
	for name, misuse := range map[string]func(*Buffer){
		"Release": func(b *Buffer) { b.Release() },
		"Retain":  func(b *Buffer) { b.Retain() },
		"Bytes":   func(b *Buffer) { b.Bytes() },
	} {
		b := p.TryGet(1)
		b.Release()
		next := p.TryGet(1) // the same memory, and not the same header
		mustPanic(t, name+" of a released buffer", func() { misuse(b) })
		if references(next.state.Load()) != 1 {
			t.Errorf("%s of a dead buffer reached the next owner", name)
		}
		next.Release()
	}
}

// Scenario 52: a buffer recycled while somebody still reads it must not pass
// for another topic's bytes.
func TestFreedMemoryIsPoisoned(t *testing.T) {
	p := newTestPool(t, 64<<10)
	b := p.TryGet(10_000)
	stale := b.Bytes()
	copy(stale, "somebody's record")
	b.Release()
	for i, c := range stale {
		if c != poisonByte {
			t.Fatalf("byte %d of a freed buffer is %#x", i, c)
		}
	}
}

func TestWriteAfterReleaseIsFoundWhenTheMemoryIsUsedAgain(t *testing.T) {
	p := newTestPool(t, 64<<10)
	b := p.TryGet(10_000)
	stale := b.Bytes()
	b.Release()
	stale[5000] = 7
	mustPanic(t, "byte 5000 of the arena was written after", func() { p.TryGet(10_000) })
	stale[5000] = poisonByte
	p.inUseBytes.Store(0) // what the panic left behind
}

func TestNobodyIsNotifiedUnlessRefused(t *testing.T) {
	p := newTestPool(t, 8192)
	first, second := 0, 0
	p.Notify(func() { first++ })
	p.Notify(func() { second++ })

	a, b := p.TryGet(1), p.TryGet(1)
	a.Release()
	if first != 0 {
		t.Fatal("notified although nobody was refused")
	}
	a = p.TryGet(1)
	for range 2 {
		if p.TryGet(1) != nil {
			t.Fatal("more memory than the budget")
		}
	}
	if p.TryGet(8193) != nil {
		t.Fatal("more memory than the arena")
	}
	a.Release()
	b.Release()
	if first != 1 || second != 1 {
		t.Errorf("notified %d and %d times for one round of refusals, want 1 and 1", first, second)
	}
}

func TestTooLargeIsRefusedAtOnce(t *testing.T) {
	p := newTestPool(t, 12<<10)
	_, err := p.Get(t.Context(), 8193)
	if !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge", err)
	}
}

func TestWaitersAreServedInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPool(t, 16<<10)
		held := []*Buffer{p.TryGet(4096), p.TryGet(4096), p.TryGet(4096), p.TryGet(4096)}
		type service struct {
			to     string
			buffer *Buffer
		}
		served := make(chan service, 3)
		wait := func(name string, size int) {
			go func() {
				b, err := p.Get(context.Background(), size)
				if err != nil {
					t.Error(err)
				}
				served <- service{name, b}
			}()
			synctest.Wait() // now it is in the queue
		}
		wait("first, all of it", 16<<10)
		wait("second, one page", 4096)
		wait("third, one page", 4096)

		for _, b := range held[:3] {
			b.Release()
		}
		synctest.Wait()
		if len(served) != 0 {
			t.Fatalf("%q overtook the large request at the head", (<-served).to)
		}
		if p.TryGet(1) != nil {
			t.Fatal("TryGet overtook those who wait")
		}
		held[3].Release()
		synctest.Wait()
		if len(served) != 1 {
			t.Fatalf("%d were served, with memory for the first", len(served))
		}
		first := <-served
		if first.to != "first, all of it" {
			t.Fatalf("served %q first", first.to)
		}
		first.buffer.Release()
		for range 2 {
			(<-served).buffer.Release()
		}
	})
}

func TestAWaiterThatGivesUpLetsTheNextOnePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPool(t, 8192)
		notified := false
		p.Notify(func() { notified = true })
		held := p.TryGet(4096)

		gone := errors.New("connection closed")
		ctx, cancel := context.WithCancelCause(context.Background())
		large := make(chan error)
		go func() {
			_, err := p.Get(ctx, 8192)
			large <- err
		}()
		synctest.Wait()
		small := make(chan *Buffer)
		go func() {
			b, err := p.Get(context.Background(), 4096)
			if err != nil {
				t.Error(err)
			}
			small <- b
		}()
		synctest.Wait()
		if p.TryGet(1) != nil {
			t.Fatal("TryGet overtook those who wait")
		}
		cancel(gone)
		if err := <-large; !errors.Is(err, gone) {
			t.Errorf("got %v, want the context's cause", err)
		}
		b := <-small // without any release: the page was free all along
		if !notified {
			t.Error("TryGet was refused for the queue, the queue went, and nobody said so")
		}
		b.Release()
		held.Release()
	})
}

func TestAnEndedContextIsReportedOnlyWhenThereIsAWait(t *testing.T) {
	p := newTestPool(t, 4096)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b, err := p.Get(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Get(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	b.Release()
}

func TestCloseRefusesWhileMemoryIsHeldAndWakesWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool("closing", 8192)
		held := p.TryGet(4096)
		if err := p.Close(); !errors.Is(err, ErrInUse) {
			t.Fatalf("got %v, want ErrInUse", err)
		}
		// A pool that is all free has no waiters: one can only wait for a
		// piece that is held. So the waiter is put there by hand.
		held.Release()
		w := &waiter{order: 1, served: make(chan *Buffer, 1)}
		p.mu.waiters.push(w)
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if b := <-w.served; b != nil {
			t.Error("a closed pool served memory")
		}
		if p.TryGet(1) != nil {
			t.Error("a closed pool handed out memory")
		}
		if _, err := p.Get(t.Context(), 1); !errors.Is(err, ErrClosed) {
			t.Errorf("got %v, want ErrClosed", err)
		}
		if err := p.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
	})
}

// A promise about speed is a test.
func TestGetAndReleaseAllocateNothing(t *testing.T) {
	for name, p := range map[string]*Pool{
		"plain":   newPool("plain", 16<<20, false),
		"checked": newPool("checked", 16<<20, true),
	} {
		ctx := t.Context()
		if n := testing.AllocsPerRun(2000, func() {
			a := p.TryGet(5000)
			b, _ := p.Get(ctx, 70_000)
			a.Retain().Release()
			a.Release()
			b.Release()
		}); n != 0 {
			t.Errorf("%s pool: %v allocations per run", name, n)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestMoreBuffersThanEverBeforeGetNewHeaders(t *testing.T) {
	p := newTestPool(t, 16<<20)
	var held []*Buffer
	seen := map[*Buffer]bool{}
	for b := p.TryGet(1); b != nil; b = p.TryGet(1) {
		if seen[b] {
			t.Fatal("a header has two owners")
		}
		seen[b] = true
		held = append(held, b)
	}
	if int64(len(held))*4096 != p.LimitBytes() || p.InUseBytes() != p.LimitBytes() {
		t.Errorf("%d pages of %s, %d bytes in use, limit %d", len(held), p.Name(), p.InUseBytes(), p.LimitBytes())
	}
	for _, b := range held {
		b.Release()
	}
}

func TestAWaiterMayLeaveFromTheMiddleOfTheQueue(t *testing.T) {
	var q waiterQueue
	a, b, c := new(waiter), new(waiter), new(waiter)
	for _, w := range []*waiter{a, b, c} {
		q.push(w)
	}
	q.remove(b)
	if q.head != a || a.next != c || c.prev != a || q.tail != c || b.queued {
		t.Error("the queue is not a, c")
	}
	q.remove(c)
	q.remove(a)
	if q.head != nil || q.tail != nil {
		t.Error("the queue is not empty")
	}
}
