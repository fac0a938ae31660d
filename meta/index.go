package meta

import "maps"

// indexShards is how many maps an index is cut into: at 10,000 keys a change
// copies one map of about 40.
const indexShards = 256

// index is an immutable map for many keys that change a few at a time. The nil
// *index is empty.
type index[V any] struct {
	shards [indexShards]map[string]V
}

// get returns the value of key.
func (x *index[V]) get(key string) (V, bool) {
	if x == nil {
		var zero V
		return zero, false
	}
	value, ok := x.shards[indexShard(key)][key]
	return value, ok
}

// getBytes is get for a key that is not a string yet; it does not allocate.
func (x *index[V]) getBytes(key []byte) (V, bool) {
	if x == nil {
		var zero V
		return zero, false
	}
	value, ok := x.shards[indexShard(key)][string(key)]
	return value, ok
}

// edit starts a change of x, which itself stays as it is.
func (x *index[V]) edit() *indexEdit[V] {
	edit := &indexEdit[V]{next: &index[V]{}}
	if x != nil {
		*edit.next = *x
	}
	return edit
}

// indexEdit is one change of an index; each shard is copied at its first write.
type indexEdit[V any] struct {
	next  *index[V]
	owned [indexShards]bool
}

func (e *indexEdit[V]) shard(key string) map[string]V {
	number := indexShard(key)
	if !e.owned[number] {
		e.owned[number] = true
		e.next.shards[number] = maps.Clone(e.next.shards[number])
		if e.next.shards[number] == nil {
			e.next.shards[number] = make(map[string]V)
		}
	}
	return e.next.shards[number]
}

func (e *indexEdit[V]) put(key string, value V) {
	e.shard(key)[key] = value
}

func (e *indexEdit[V]) remove(key string) {
	delete(e.shard(key), key)
}

// done publishes the changed index; the edit must not be used after it.
func (e *indexEdit[V]) done() *index[V] { return e.next }

// indexShard picks the shard of a key by FNV-1a. Which shard a key is in shows
// nowhere outside; a name chosen to collide only makes its writer's copy longer.
func indexShard[K string | []byte](key K) uint8 {
	hash := fnvOffset
	for i := 0; i < len(key); i++ {
		hash = (hash ^ uint32(key[i])) * fnvPrime
	}
	return uint8(hash ^ hash>>8 ^ hash>>16 ^ hash>>24)
}

// The parameters of 32-bit FNV-1a.
const (
	fnvOffset uint32 = 2166136261
	fnvPrime  uint32 = 16777619
)
