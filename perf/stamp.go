package perf

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"time"

	"ringlog/record"
)

// A stamp is in the value of a batch's first record: when the batch was due, so
// that whoever reads it knows how long it took from there, to the microsecond
// and over processes of one machine. Batches are built once and stamped at every
// send; the checksum follows without being computed again.
//
//	stampMark (8 bytes) | microseconds since 1970 (u64)
const (
	stampMark  = "ringlog\x01"
	stampBytes = len(stampMark) + 8
	// stampEndMax is the most that a batch has before the end of its stamp: the header,
	// three varints of a record of 64 MiB at most, attributes, two deltas of a first record, no key.
	stampEndMax = record.HeaderBytes + 5 + 1 + 1 + 1 + 1 + 5 + stampBytes
	crcAt       = 17 // position in a batch, of a u32 over all that follows it (KIP-98)
	crcEnd      = crcAt + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// stamper stamps copies of the beginning of one batch. Nobody changes it.
type stamper struct {
	prefix []byte // of the batch, up to the end of the stamp, which is zero there
	crc    uint32 // of the batch with that stamp
	// flips is what each bit of the stamp, lowest first, changes in the checksum: a
	// CRC is linear, so they add up.
	flips [64]uint32
}

// newStamper finds the stamp's place in a batch that buildBatch made.
func newStamper(batch []byte) *stamper {
	end := bytes.Index(batch, []byte(stampMark)) + stampBytes
	s := &stamper{prefix: bytes.Clone(batch[:end])}
	clear(s.prefix[end-8:])
	plain := bytes.Clone(batch)
	copy(plain, s.prefix)
	s.crc = crc32.Checksum(plain[crcEnd:], castagnoli)
	for bit := range s.flips {
		binary.BigEndian.PutUint64(plain[end-8:], 1<<bit)
		s.flips[bit] = crc32.Checksum(plain[crcEnd:], castagnoli) ^ s.crc
	}
	return s
}

// stamp writes the beginning of the batch into space, which has room for it, with a stamp of at.
func (s *stamper) stamp(space []byte, at time.Time) []byte {
	prefix := space[:copy(space, s.prefix)]
	micros, crc := uint64(at.UnixMicro()), s.crc
	for rest, bit := micros, 0; rest != 0; rest, bit = rest>>1, bit+1 {
		if rest&1 != 0 {
			crc ^= s.flips[bit]
		}
	}
	binary.BigEndian.PutUint64(prefix[len(prefix)-8:], micros)
	binary.BigEndian.PutUint32(prefix[crcAt:], crc)
	return prefix
}

// stampOf returns when a batch was due, if it has a stamp.
func stampOf(batch record.Batch) (time.Time, bool) {
	if batch.Codec() != record.CodecNone {
		return time.Time{}, false
	}
	rest := batch.Payload()
	skipVarint := func() { // of the record, whatever it says
		_, n := binary.Uvarint(rest)
		rest = rest[max(n, 0):]
	}
	skipVarint()
	if len(rest) < 1 {
		return time.Time{}, false
	}
	rest = rest[1:] // attributes
	for range 4 {   // time and offset deltas, key length (no key), value length
		skipVarint()
	}
	if len(rest) < stampBytes || string(rest[:len(stampMark)]) != stampMark {
		return time.Time{}, false
	}
	return time.UnixMicro(int64(binary.BigEndian.Uint64(rest[len(stampMark):]))), true
}
