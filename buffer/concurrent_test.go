package buffer

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"
)

// TestNoTwoOwnersShareMemory has many goroutines fill, keep, share and check
// buffers of a pool far too small for all of them.
func TestNoTwoOwnersShareMemory(t *testing.T) {
	p := newTestPool(t, 1<<20)
	woken := make(chan struct{}, 1)
	p.Notify(func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	})

	stamp := func(b *Buffer, value uint64) {
		memory := b.Bytes()
		for i := 0; i < len(memory); i += 512 {
			binary.LittleEndian.PutUint64(memory[i:], value)
		}
	}
	check := func(b *Buffer, value uint64) {
		memory := b.Bytes()
		for i := 0; i < len(memory); i += 512 {
			if got := binary.LittleEndian.Uint64(memory[i:]); got != value {
				t.Errorf("byte %d of a held buffer reads %#x, want %#x", i, got, value)
				return
			}
		}
	}

	var owners, readers sync.WaitGroup
	for owner := range 8 {
		owners.Go(func() {
			random := rand.New(rand.NewPCG(uint64(owner), 1))
			for round := range 300 {
				size := 1 << (9 + random.IntN(10)) // to 256 KiB
				var b *Buffer
				if round%3 == 0 {
					b = p.TryGet(size)
				}
				if b == nil {
					var err error
					if b, err = p.Get(context.Background(), size); err != nil {
						t.Error(err)
						return
					}
				}
				value := uint64(owner)<<32 | uint64(round)
				stamp(b, value)
				if random.IntN(2) == 0 {
					shared := b.Retain()
					readers.Go(func() {
						check(shared, value)
						shared.Release()
					})
				}
				if random.IntN(50) == 0 {
					p.Trim()
				}
				check(b, value)
				b.Release()
			}
		})
	}
	owners.Wait()
	readers.Wait()
	if p.InUseBytes() != 0 {
		t.Errorf("%d bytes in use after everything came back", p.InUseBytes())
	}
}

// TestCancelledWaitsLoseNothing lets contexts end at the very moment at which
// memory is served.
func TestCancelledWaitsLoseNothing(t *testing.T) {
	p := newTestPool(t, 4096)
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for range 500 {
				ctx, cancel := context.WithCancel(context.Background())
				go cancel()
				if b, err := p.Get(ctx, 1); err == nil {
					b.Release()
				}
				cancel()
			}
		})
	}
	workers.Wait()
	b := p.TryGet(1)
	if b == nil {
		t.Fatal("a cancelled wait kept its memory")
	}
	b.Release()
}
