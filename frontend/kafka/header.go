package kafka

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/frontend"
)

// Layout of what stands before every body. The length counts what follows it.
//
//	request   length 4 | api key 2 | version 2 | correlation id 4 | client id 2+n | [tags, header v2]
//	response  length 4 | correlation id 4 | [tags, header v1]
//
// Header v2 and response header v1 go with the flexible versions of an API
// (KIP-482), with one exception: ApiVersions answers with header v0 always,
// because a client that asks does not know yet what the broker understands
// (KIP-511). The client id stays a non-compact string in header v2. Request
// header v0, without a client id, belonged to ControlledShutdown v0 alone,
// which is not served.
const (
	lengthBytes            = 4
	requestHeaderBytesMin  = 2 + 2 + 4 + 2
	clientIDBytesMax       = 1 << 10
	responseHeaderBytes    = lengthBytes + 4
	headerTagCountMax      = 10_000 // per message, as Kafka 4.4 caps them
	apiVersionsFlexibleMin = 3
)

// requestHeader is a decoded request header. clientID slices the frame.
type requestHeader struct {
	key           int16
	version       int16
	correlationID int32
	clientID      []byte
}

// parseHeader decodes the header of a frame (length prefix included) and
// returns the body behind it. flexible says whether header v2 applies to a key
// and version.
func parseHeader(frame []byte, flexible func(key, version int16) bool) (requestHeader, []byte, error) {
	var h requestHeader
	if len(frame) < lengthBytes+requestHeaderBytesMin {
		return h, nil, fmt.Errorf("%w: %d bytes hold no request header", frontend.ErrMalformed, len(frame))
	}
	b := kbin.Reader{Src: frame[lengthBytes:]}
	h.key, h.version, h.correlationID = b.Int16(), b.Int16(), b.Int32()
	if size := int(b.Int16()); size >= 0 {
		if size > clientIDBytesMax {
			return h, nil, fmt.Errorf("%w: client id of %d bytes", frontend.ErrMalformed, size)
		}
		h.clientID = b.Span(size)
	}
	if flexible(h.key, h.version) {
		if err := skipTags(&b); err != nil {
			return h, nil, err
		}
	}
	if !b.Ok() {
		return h, nil, fmt.Errorf("%w: request header is cut short", frontend.ErrMalformed)
	}
	return h, b.Src, nil
}

// skipTags passes over a section of tagged fields (KIP-482) that holds nothing
// known.
func skipTags(b *kbin.Reader) error {
	if len(b.Src) > 0 && b.Src[0] == 0 { // nearly always
		b.Src = b.Src[1:]
		return nil
	}
	return eachTag(b, func(uint32, []byte) {})
}

// eachTag reads a section of tagged fields; value slices the frame.
func eachTag(b *kbin.Reader, field func(tag uint32, value []byte)) error {
	count := b.Uvarint()
	if count > headerTagCountMax {
		return fmt.Errorf("%w: %d tagged fields", frontend.ErrMalformed, count)
	}
	for ; count > 0 && b.Ok(); count-- {
		tag, size := b.Uvarint(), b.Uvarint()
		value := b.Span(int(size))
		if b.Ok() {
			field(tag, value)
		}
	}
	if !b.Ok() {
		return fmt.Errorf("%w: tagged fields are cut short", frontend.ErrMalformed)
	}
	return nil
}

// appendResponseHeader appends a response header whose length is still zero.
func appendResponseHeader(dst []byte, key int16, correlationID int32, flexible bool) []byte {
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlationID))
	if flexible && key != int16(kmsg.ApiVersions) {
		dst = append(dst, 0)
	}
	return dst
}
