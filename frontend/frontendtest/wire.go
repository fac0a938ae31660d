package frontendtest

import (
	"encoding/binary"
	"hash/crc32"
)

// The test protocol on the wire, big endian:
//
//	request  u32 length of what follows | u8 operation | u64 id | payload
//	reply    u32 length of what follows | u64 id | u64 token of the connection | u32 CRC-32C of payload | payload
//
// The token is told to the server by the first request of a connection; a
// reply that arrives at another connection carries the wrong one.
const (
	prefixBytes        = 4
	requestHeaderBytes = prefixBytes + 1 + 8
	replyHeaderBytes   = prefixBytes + 8 + 8 + 4
)

// Operation says what the session does with a request.
type Operation uint8

const (
	// Hello tells the token of the connection, 8 bytes of payload; answered at once.
	Hello Operation = iota + 1
	// Echo is answered inside Receive with the payload, sliced from the frame.
	Echo
	// Later is the same, answered from another goroutine in random order.
	Later
	// Hold is the same, answered when the test calls Protocol.ReleaseHeld.
	Hold
	// AtTurn binds late: nothing happens before onTurn, which has the payload
	// echoed from another goroutine.
	AtTurn
	// AtTurnInline completes inside onTurn.
	AtTurnInline
	// Silent has no answer, like a produce with acks=0; every other one counts as in
	// flight until another goroutine is done with it.
	Silent
	// Large is answered with as many bytes as the payload (u32) says.
	Large
	// Fail makes Receive return frontend.ErrMalformed.
	Fail
	// Hangup makes the session close the connection itself.
	Hangup
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendRequest appends one request frame to dst.
func AppendRequest(dst []byte, operation Operation, id uint64, payload []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(requestHeaderBytes-prefixBytes+len(payload)))
	dst = append(dst, byte(operation))
	dst = binary.BigEndian.AppendUint64(dst, id)
	return append(dst, payload...)
}

func appendReplyHeader(dst []byte, id, token uint64, payload []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(replyHeaderBytes-prefixBytes+len(payload)))
	dst = binary.BigEndian.AppendUint64(dst, id)
	dst = binary.BigEndian.AppendUint64(dst, token)
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(payload, castagnoli))
}
