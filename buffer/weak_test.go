package buffer

import (
	"sync"
	"testing"
)

// A weak name finds its buffer while somebody owns it, and nothing once the memory went
// back, whoever has it now.
func TestWeakNamesOneLifeOfABuffer(t *testing.T) {
	p := newTestPool(t, 64<<10)
	if (Weak{}).Retain() != nil {
		t.Error("the zero name finds something")
	}
	b := p.TryGet(4096)
	weak := b.Weak()
	again := weak.Retain()
	if again != b {
		t.Fatal("a buffer that is owned is not found")
	}
	b.Release()
	if other := weak.Retain(); other != b {
		t.Error("a buffer that the name itself holds is not found")
	} else {
		other.Release()
	}
	again.Release()
	if weak.Retain() != nil {
		t.Error("a buffer whose memory went back is found")
	}
	// All headers go round: one of them is the same again, with another block.
	held := make([]*Buffer, 0, 2*quarantineCount)
	for range 2 * quarantineCount {
		c := p.TryGet(4096)
		if weak.Retain() != nil {
			t.Fatal("a later life of the header is found")
		}
		held = append(held, c)
		c.Release()
	}
	seen := false
	for _, c := range held {
		seen = seen || c == b
	}
	if !seen {
		t.Error("the header was not used again: the test shows nothing")
	}
}

// Whoever gets a buffer by its name owns it, however the last owner's release falls between.
func TestWeakRetainAgainstTheLastRelease(t *testing.T) {
	p := newTestPool(t, 1<<20)
	for range 2000 {
		b := p.TryGet(4096)
		b.Bytes()[0] = 7
		weak := b.Weak()
		var both sync.WaitGroup
		both.Go(b.Release)
		both.Go(func() {
			if c := weak.Retain(); c != nil {
				if c.Bytes()[0] != 7 {
					t.Error("the memory is somebody else's")
				}
				c.Release()
			}
		})
		both.Wait()
		if in := p.InUseBytes(); in != 0 {
			t.Fatalf("%d bytes are not back", in)
		}
	}
}
