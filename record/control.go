package record

import "encoding/binary"

// ControlType is what a control record says (KIP-98). Others than the two here
// belong to Kafka's own metadata log.
type ControlType int16

const (
	ControlAbort  ControlType = 0
	ControlCommit ControlType = 1
)

// Control records that end a transaction:
//
//	key    version int16 (0) | type int16
//	value  version int16 (0) | coordinator epoch int32
const (
	controlKeyBytes    = 4
	endTransactionSize = 6
)

// AppendEndTransaction adds the marker that ends a transaction to a batch whose
// options say Control and Transactional. The coordinator epoch fences markers
// of a coordinator that has been replaced.
func (b *Builder) AppendEndTransaction(timestampMillis int64, kind ControlType, coordinatorEpoch int32) {
	var key [controlKeyBytes]byte
	var value [endTransactionSize]byte
	binary.BigEndian.PutUint16(key[2:], uint16(kind))
	binary.BigEndian.PutUint32(value[2:], uint32(coordinatorEpoch))
	b.Append(timestampMillis, key[:], value[:])
}

// ControlType returns what the record of a control batch says; ok is false when
// its key is none that this version reads.
func (r *Record) ControlType() (kind ControlType, ok bool) {
	if len(r.Key) < controlKeyBytes || int16(binary.BigEndian.Uint16(r.Key)) < 0 {
		return 0, false
	}
	return ControlType(binary.BigEndian.Uint16(r.Key[2:])), true
}

// CoordinatorEpoch returns the epoch of the coordinator that wrote the marker
// that ends a transaction; ok is false when the value is no such marker.
func (r *Record) CoordinatorEpoch() (epoch int32, ok bool) {
	if len(r.Value) < endTransactionSize {
		return 0, false
	}
	return int32(binary.BigEndian.Uint32(r.Value[2:])), true
}
