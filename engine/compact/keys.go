package compact

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/bits"
)

// Hash stands for a key. 128 bits of SHA-256: two keys of a topic with a billion of
// them share one by chance with a probability of 10^-21, and nobody can make two that
// do. (Kafka takes MD5, for which that is not so. A 64-bit hash would drop records of
// a million keys with a probability of 3 in 10^8, and of a keyed one all but nobody could tell.)
type Hash [16]byte

// HashOf returns the hash of a key. It allocates nothing.
func HashOf(key []byte) Hash {
	sum := sha256.Sum256(key)
	return Hash(sum[:len(Hash{})])
}

// keyBytes is what a slot of Keys takes: a hash and a relative offset.
const keyBytes = len(Hash{}) + 4

// loadMax is how full Keys gets, in 16ths of its slots: 22 bytes a key.
const loadMax = 14

// slotsMin is the smallest table.
const slotsMin = 1 << 10

// Keys maps the hash of each key to the offset of its newest record, for the offsets of one
// pass. Open addressing in two flat arrays without pointers: the collector does not look
// into them, and a miss touches one cache line.
type Keys struct {
	base    int64
	hashes  []Hash
	offsets []uint32 // relative to base, plus one; 0 is a free slot
	count   int
	limit   int
}

// NewKeys returns an empty map for records from offset base on. It takes as much memory as offsets
// records need when each has a key of its own, and at most bytesMax (log.cleaner.dedupe.buffer.size).
func NewKeys(base, offsets, bytesMax int64) *Keys {
	offsets = min(max(offsets, 0), math.MaxUint32) // what one pass can address anyway
	slots := min(offsets*16/loadMax+slotsMin, max(bytesMax/int64(keyBytes), slotsMin))
	return &Keys{
		base:    base,
		hashes:  make([]Hash, slots),
		offsets: make([]uint32, slots),
		limit:   int(slots) / 16 * loadMax,
	}
}

// MemoryBytes is what the map takes.
func (k *Keys) MemoryBytes() int64 { return int64(len(k.offsets)) * int64(keyBytes) }

// Len is how many keys it has.
func (k *Keys) Len() int { return k.count }

// slot returns where h is, or would be.
func (k *Keys) slot(h *Hash) int {
	n := uint64(len(k.offsets))
	at, _ := bits.Mul64(binary.LittleEndian.Uint64(h[:8]), n)
	for k.offsets[at] != 0 && k.hashes[at] != *h {
		if at++; at == n {
			at = 0
		}
	}
	return int(at)
}

// Put notes that the newest record of a key is at offset; offsets ascend. It returns false, and
// notes nothing, when the key is new and there is no room, or the offset is too far above base.
func (k *Keys) Put(h Hash, offset int64) bool {
	relative := offset - k.base
	if relative >= math.MaxUint32 {
		return false
	}
	at := k.slot(&h)
	if k.offsets[at] == 0 {
		if k.count >= k.limit {
			return false
		}
		k.hashes[at] = h
		k.count++
	}
	k.offsets[at] = uint32(relative) + 1
	return true
}

// Newest returns the offset of the newest record of a key; ok is false when it has none.
func (k *Keys) Newest(h Hash) (offset int64, ok bool) {
	if k.count == 0 {
		return 0, false
	}
	if relative := k.offsets[k.slot(&h)]; relative != 0 {
		return k.base + int64(relative) - 1, true
	}
	return 0, false
}
