package compact

import (
	"fmt"
	"testing"
)

func TestKeysKnowTheNewestOfEachUntilTheyAreFull(t *testing.T) {
	k := NewKeys(1000, 1<<40, 1<<20)
	if k.MemoryBytes() > 1<<20 {
		t.Fatalf("%d bytes", k.MemoryBytes())
	}
	n := int64(0)
	for ; k.Put(HashOf(fmt.Appendf(nil, "key %d", n)), 1000+n); n++ {
	}
	if perKey := float64(k.MemoryBytes()) / float64(n); perKey > 24 || int64(k.Len()) != n {
		t.Errorf("%d of %d keys, %.1f bytes each", k.Len(), n, perKey)
	}
	if !k.Put(HashOf([]byte("key 0")), 5_000_000) {
		t.Error("a key that is there already finds no room")
	}
	for i := range n {
		want := 1000 + i
		if i == 0 {
			want = 5_000_000
		}
		if got, ok := k.Newest(HashOf(fmt.Appendf(nil, "key %d", i))); !ok || got != want {
			t.Fatalf("key %d is at %d, %v", i, got, ok)
		}
	}
	if _, ok := k.Newest(HashOf([]byte("nobody's"))); ok {
		t.Error("a key is found that was never there")
	}
	if k.Put(HashOf([]byte("key 0")), 1000+1<<33) {
		t.Error("an offset is taken that cannot be told from a lower one")
	}
	if small := NewKeys(0, 10, 1<<30).MemoryBytes(); small > 64<<10 {
		t.Errorf("ten records ask for %d bytes", small)
	}
}

func TestKeysAllocateNothing(t *testing.T) {
	k, key := NewKeys(0, 1<<20, 1<<24), []byte("orders-0000000017")
	if n := testing.AllocsPerRun(100, func() {
		k.Put(HashOf(key), 7)
		k.Newest(HashOf(key))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
