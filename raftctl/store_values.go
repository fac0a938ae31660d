package raftctl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"go.etcd.io/bbolt"
	"go.etcd.io/raft/v3/raftpb"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	errNoValue = errors.New("it is missing")
	errSum     = errors.New("its checksum does not match")
	errCut     = errors.New("it is cut off")
)

// seal puts the sum of key and value before value.
func seal(key, value []byte) []byte {
	sum := crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
	return append(binary.LittleEndian.AppendUint32(make([]byte, 0, 4+len(value)), sum), value...)
}

// unseal returns the value that seal was given, still in sealed's memory.
func unseal(key, sealed []byte) ([]byte, error) {
	if sealed == nil {
		return nil, fmt.Errorf("%q: %w", key, errNoValue)
	}
	if len(sealed) < 4 {
		return nil, fmt.Errorf("%q: %w", key, errCut)
	}
	value := sealed[4:]
	if binary.LittleEndian.Uint32(sealed) != crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value) {
		return nil, fmt.Errorf("%q: %w", key, errSum)
	}
	return value, nil
}

func put(bucket *bbolt.Bucket, key, value []byte) error { return bucket.Put(key, seal(key, value)) }

// get reads and decodes a sealed value.
func get[T any](bucket *bbolt.Bucket, key []byte, decode func([]byte) (T, error)) (T, error) {
	var none T
	value, err := unseal(key, bucket.Get(key))
	if err != nil {
		return none, err
	}
	decoded, err := decode(value)
	if err != nil {
		return none, fmt.Errorf("%q: %w", key, err)
	}
	return decoded, nil
}

// uvarints reads count numbers and returns what follows them.
func uvarints(value []byte, count int) ([]uint64, []byte, error) {
	numbers := make([]uint64, count)
	for i := range numbers {
		number, n := binary.Uvarint(value)
		if n <= 0 {
			return nil, nil, errCut
		}
		numbers[i], value = number, value[n:]
	}
	return numbers, value, nil
}

func appendUvarints(dst []byte, numbers ...uint64) []byte {
	for _, number := range numbers {
		dst = binary.AppendUvarint(dst, number)
	}
	return dst
}

func encodeIdentity(who identity) []byte {
	return append(appendUvarints(nil, formatVersion, uint64(who.nodeID)), who.clusterID...)
}

// decodeIdentity returns the version even if the rest is another version's.
func decodeIdentity(value []byte) (version uint64, who identity, err error) {
	numbers, rest, err := uvarints(value, 1)
	if err != nil {
		return 0, who, err
	}
	version = numbers[0]
	if numbers, rest, err = uvarints(rest, 1); err != nil {
		return version, who, err
	}
	return version, identity{nodeID: int32(numbers[0]), clusterID: string(rest)}, nil
}

func encodeHard(hard *raftpb.HardState) []byte {
	return appendUvarints(nil, hard.GetTerm(), hard.GetVote(), hard.GetCommit())
}

func decodeHard(value []byte) (*raftpb.HardState, error) {
	numbers, _, err := uvarints(value, 3)
	if err != nil {
		return nil, err
	}
	return &raftpb.HardState{Term: &numbers[0], Vote: &numbers[1], Commit: &numbers[2]}, nil
}

func encodePosition(at position) []byte { return appendUvarints(nil, at.index, at.term) }

func decodePosition(value []byte) (position, error) {
	numbers, _, err := uvarints(value, 2)
	if err != nil {
		return position{}, err
	}
	return position{index: numbers[0], term: numbers[1]}, nil
}

// snapshot is a whole image and where in the log it stands.
type snapshot struct {
	at     position
	voters []uint64 // raft ids
	image  []byte
}

func encodeSnapshot(s snapshot) []byte {
	value := appendUvarints(make([]byte, 0, 64+len(s.image)), s.at.index, s.at.term, uint64(len(s.voters)))
	return append(appendUvarints(value, s.voters...), s.image...)
}

// decodeSnapshot copies what it returns.
func decodeSnapshot(value []byte) (snapshot, error) {
	numbers, rest, err := uvarints(value, 3)
	if err != nil {
		return snapshot{}, err
	}
	s := snapshot{at: position{index: numbers[0], term: numbers[1]}}
	if numbers[2] == 0 || numbers[2] > VotersMax {
		return snapshot{}, fmt.Errorf("it has %d voters", numbers[2])
	}
	if s.voters, rest, err = uvarints(rest, int(numbers[2])); err != nil {
		return snapshot{}, err
	}
	s.image = append([]byte(nil), rest...)
	return s, nil
}

func entryKey(index uint64) []byte { return binary.BigEndian.AppendUint64(nil, index) }

func encodeEntry(entry *raftpb.Entry) []byte {
	value := appendUvarints(make([]byte, 0, 16+len(entry.GetData())), entry.GetTerm(), uint64(entry.GetType()))
	return append(value, entry.GetData()...)
}

// openEntry reads a sealed entry; its data is a copy.
func openEntry(key, sealed []byte) (*raftpb.Entry, error) {
	index := binary.BigEndian.Uint64(key)
	value, err := unseal(key, sealed)
	if err != nil {
		return nil, fmt.Errorf("entry %d of its log: %w", index, err)
	}
	numbers, rest, err := uvarints(value, 2)
	if err != nil {
		return nil, fmt.Errorf("entry %d of its log: %w", index, err)
	}
	entry := &raftpb.Entry{Index: &index, Term: &numbers[0], Type: raftpb.EntryType(numbers[1]).Enum()}
	if len(rest) > 0 {
		entry.Data = append([]byte(nil), rest...)
	}
	return entry, nil
}
