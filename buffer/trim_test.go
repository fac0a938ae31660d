package buffer

import "testing"

// canDiscard says whether this build's arenas are mapped by hand.
var canDiscard = func() bool {
	a := newArena(hugePageBytes)
	defer a.close()
	return a.discard(a.bytes)
}()

const needsMappedArena = "this build keeps arenas on the Go heap, which takes nothing back; " +
	"builds for Linux without the race detector run this test"

func TestTrimGivesBackWhatWasTouchedAndIsFree(t *testing.T) {
	if !canDiscard {
		t.Skip(needsMappedArena)
	}
	p := newTestPool(t, 32<<20)
	if n := p.Trim(); n != 0 {
		t.Errorf("trimmed %d bytes that nobody had touched", n)
	}
	low, high := p.TryGet(2<<20), p.TryGet(8<<20)
	small := p.TryGet(4096)
	copy(low.Bytes(), "stays")
	stale := high.Bytes()
	high.Release()
	small.Release() // its chunk is touched and wholly free as well

	if n := p.Trim(); n != 10<<20 {
		t.Errorf("trimmed %d bytes, want the 8 MiB and the 2 MiB chunk of the small one", n)
	}
	if stale[0] != 0 || stale[len(stale)-1] != 0 {
		t.Error("the pages were not given back")
	}
	if string(low.Bytes()[:5]) != "stays" {
		t.Error("trimming took a buffer that is held")
	}
	if n := p.Trim(); n != 0 {
		t.Errorf("trimmed %d bytes twice", n)
	}
	if p.InUseBytes() != 2<<20 {
		t.Errorf("in use: %d", p.InUseBytes())
	}
	again := p.TryGet(8 << 20) // zeros are not mistaken for a write after release
	again.Release()
	low.Release()
	if whole := p.TryGet(32 << 20); whole == nil {
		t.Error("trimmed blocks did not join again")
	} else {
		whole.Release()
	}
}

func TestTrimOfAPoolBelowAHugePageDoesNothing(t *testing.T) {
	p := newTestPool(t, 64<<10)
	p.TryGet(1).Release()
	if n := p.Trim(); n != 0 {
		t.Errorf("trimmed %d bytes of 64 KiB", n)
	}
}
