package engine

import (
	"encoding/binary"

	"ringlog/record"
)

// rawBatch builds the bytes of a v2 batch by hand.
func rawBatch(seed uint64, records, size int, timestamp int64) []byte {
	b := make([]byte, record.HeaderBytes+size)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-record.PrefixBytes))
	b[16] = record.Magic
	binary.BigEndian.PutUint32(b[23:], uint32(records-1))
	binary.BigEndian.PutUint64(b[27:], uint64(timestamp))
	binary.BigEndian.PutUint64(b[35:], uint64(timestamp))
	binary.BigEndian.PutUint64(b[43:], ^uint64(0)) // no producer id
	binary.BigEndian.PutUint16(b[51:], ^uint16(0))
	binary.BigEndian.PutUint32(b[53:], ^uint32(0))
	binary.BigEndian.PutUint32(b[57:], uint32(records))
	for i := range b[record.HeaderBytes:] {
		seed = seed*6364136223846793005 + 1442695040888963407
		b[record.HeaderBytes+i] = byte(seed >> 56)
	}
	record.Batch(b).UpdateCRC()
	return b
}
