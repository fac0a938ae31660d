package buffer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestWhoSparesLeavesTheReserveToOthers(t *testing.T) {
	p := newTestPool(t, 32<<10)
	const reserve = 8 << 10
	first, second := p.TryGetSparing(16<<10, reserve), p.TryGetSparing(8<<10, reserve)
	if first == nil || second == nil {
		t.Fatal("refused although the reserve stays free")
	}
	if p.TryGetSparing(1, reserve) != nil {
		t.Fatal("a page of the reserve went to who has to leave it")
	}
	page, rest := p.TryGet(1), p.TryGet(1)
	if page == nil || rest == nil {
		t.Fatal("the reserve is not there for others")
	}
	if p.TryGetSparing(64<<10, 0) != nil {
		t.Fatal("more memory than the arena")
	}
	for _, b := range []*Buffer{first, second, page, rest} {
		b.Release()
	}
}

func TestWhatCanNeverBeSparedIsRefusedAtOnce(t *testing.T) {
	p := newTestPool(t, 32<<10)
	for _, size := range []int{32 << 10, 64 << 10} {
		if _, err := p.GetSparing(t.Context(), size, 4<<10); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%d bytes: got %v, want ErrTooLarge", size, err)
		}
	}
}

// Those who spare wait among themselves, in order; nobody else waits for them.
func TestWhoWaitsForWhatCanBeSparedHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPool(t, 32<<10)
		const reserve = 8 << 10
		held := []*Buffer{p.TryGet(8 << 10), p.TryGet(8 << 10)}
		type service struct {
			to     string
			buffer *Buffer
		}
		served := make(chan service, 3)
		wait := func(name string, get func() (*Buffer, error)) {
			go func() {
				b, err := get()
				if err != nil {
					t.Error(err)
				}
				served <- service{name, b}
			}()
			synctest.Wait() // now it is in its queue
		}
		wait("first", func() (*Buffer, error) { return p.GetSparing(context.Background(), 16<<10, reserve) })
		wait("second", func() (*Buffer, error) { return p.GetSparing(context.Background(), 4<<10, reserve) })
		if p.TryGetSparing(1, reserve) != nil || len(served) != 0 {
			t.Fatal("somebody overtook the first")
		}
		all := p.TryGet(16 << 10)
		if all == nil {
			t.Fatal("TryGet waits for those who have to leave it what it wants")
		}
		wait("ordinary", func() (*Buffer, error) { return p.Get(context.Background(), 8<<10) })

		held[0].Release()
		synctest.Wait()
		if len(served) != 1 {
			t.Fatalf("%d were served, with memory for one", len(served))
		}
		ordinary := <-served
		if ordinary.to != "ordinary" {
			t.Fatalf("%q was served before who waits in Get", ordinary.to)
		}
		all.Release() // 16 KiB are free: not enough with the reserve
		synctest.Wait()
		if len(served) != 0 {
			t.Fatalf("%q was served from the reserve", (<-served).to)
		}
		held[1].Release()
		if s := <-served; s.to != "first" {
			t.Fatalf("%q was served before the first", s.to)
		} else {
			defer s.buffer.Release()
		}
		ordinary.buffer.Release()
		(<-served).buffer.Release()
	})
}

func TestWhoGivesUpSparingLetsTheNextOnePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPool(t, 16<<10)
		const reserve = 4 << 10
		held := p.TryGet(8 << 10)
		ctx, cancel := context.WithCancel(context.Background())
		large := make(chan error)
		go func() {
			_, err := p.GetSparing(ctx, 8<<10, reserve)
			large <- err
		}()
		synctest.Wait()
		small := make(chan *Buffer)
		go func() {
			b, err := p.GetSparing(context.Background(), 4<<10, reserve)
			if err != nil {
				t.Error(err)
			}
			small <- b
		}()
		synctest.Wait()
		cancel()
		if err := <-large; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the context's cause", err)
		}
		(<-small).Release()
		held.Release()
	})
}
