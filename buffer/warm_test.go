package buffer

import (
	"testing"

	"pgregory.net/rapid"
)

// kept makes p a pool that is kept warm, by the test instead of a goroutine.
func kept(p *Pool, aheadBytes int64) {
	p.mu.warmth = warmth{aheadBytes: aheadBytes, wanted: make(chan struct{}, 1)}
}

// A pool that is kept warm gives cold memory to TryGet only, and asks for more
// warmth when less than the wanted amount is free.
func TestWarmMemoryComesFirst(t *testing.T) {
	p := newTestPool(t, 8*hugePageBytes)
	if b := p.TryGetWarm(pageBytes); b == nil {
		t.Fatal("a pool that is not kept warm refused cold memory")
	} else {
		b.Release()
	}
	if trimmed := p.Trim(); trimmed > 0 && p.warmFreeBytes() != 0 {
		t.Fatalf("%d bytes are warm after a trim", p.warmFreeBytes())
	}
	p = newTestPool(t, 8*hugePageBytes)
	kept(p, 2*hugePageBytes)
	if p.TryGetWarm(pageBytes) != nil {
		t.Fatal("cold memory was given as warm")
	}
	select {
	case <-p.mu.warmth.wanted:
	default:
		t.Fatal("nobody was told that there is too little warm memory")
	}
	for range 2 {
		if !p.warm() {
			t.Fatal("nothing to warm in an untouched pool")
		}
	}
	a, b := p.TryGetWarm(hugePageBytes), p.TryGetWarm(hugePageBytes)
	if a == nil || b == nil || p.TryGetWarm(pageBytes) != nil {
		t.Fatalf("of two warm huge pages and no more: %v, %v", a != nil, b != nil)
	}
	c := p.TryGet(pageBytes)
	if c == nil {
		t.Fatal("TryGet refused cold memory")
	}
	d := p.TryGetWarm(pageBytes)
	if d == nil {
		t.Fatal("the rest of a huge page that was touched is warm")
	}
	for _, b := range []*Buffer{a, b, c, d} {
		b.Release()
	}
}

// The warmer touches what is asked for and stops there; Trim leaves it.
func TestKeepWarmHoldsMemoryReady(t *testing.T) {
	const ahead = 3 * hugePageBytes
	p := newTestPool(t, 8*hugePageBytes)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() { defer close(ended); p.KeepWarm(stop, ahead) }()
	for p.warmFreeBytes() < ahead {
		if b := p.TryGetWarm(pageBytes); b != nil {
			b.Release()
		}
	}
	big := p.TryGet(4 * hugePageBytes)
	big.Release()
	p.Trim()
	if warm := p.warmFreeBytes(); warm < ahead {
		t.Fatalf("the trim left %d bytes warm, want %d", warm, ahead)
	}
	close(stop)
	<-ended
	if p.mu.warmth.aheadBytes != 0 {
		t.Fatal("the pool still counts as kept warm")
	}
}

// Warming in between changes nothing of what the allocator promises: whatever
// the order of takes, releases, warming and trims, all memory is there in the end.
func TestWarmingLosesNoMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPool("warming", 6*hugePageBytes, true)
		kept(p, hugePageBytes)
		var held []*Buffer
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				if b := p.TryGetWarm(pageBytes << rapid.IntRange(0, 10).Draw(t, "order")); b != nil {
					held = append(held, b)
				}
			case 1:
				if b := p.TryGet(pageBytes << rapid.IntRange(0, 10).Draw(t, "order")); b != nil {
					held = append(held, b)
				}
			case 2:
				if len(held) > 0 {
					i := rapid.IntRange(0, len(held)-1).Draw(t, "release")
					held[i].Release()
					held = append(held[:i], held[i+1:]...)
				}
			case 3:
				p.warm()
			case 4:
				p.Trim()
			}
		}
		for _, b := range held {
			b.Release()
		}
		whole := p.TryGet(4 * hugePageBytes)
		rest := p.TryGet(2 * hugePageBytes)
		if whole == nil || rest == nil {
			t.Fatal("an empty pool cannot give its blocks whole")
		}
		whole.Release()
		rest.Release()
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
