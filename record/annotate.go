package record

import (
	"fmt"
	"strconv"
	"strings"

	"ringlog/internal/layout"
)

// Annotate names the fields of a batch that Next returned, and those of its records if they
// are not compressed, as the reader of records reads them. The fields end at the first that
// cannot be read; the error says why.
func Annotate(b Batch) (fields []layout.Field, err error) {
	fields = annotateHeader(b)
	payload := b.Payload()
	if b.Codec() != CodecNone {
		if len(payload) > 0 {
			fields = append(fields, layout.Field{Name: "records", At: HeaderBytes, Bytes: len(payload), Value: b.Codec().String()})
		}
		return fields, nil
	}
	at := 0
	for i := range b.RecordCount() {
		length, n := varint(payload[at:])
		if n <= 0 || length < 0 || int(length) > len(payload)-at-n {
			return fields, recordFailure(int(i), errRecordLength)
		}
		name := fmt.Sprintf("record %d: ", i)
		fields = append(fields, layout.Field{Name: name + "length", At: HeaderBytes + at, Bytes: n, Value: strconv.Itoa(int(length))})
		at += n
		body := payload[at : at+int(length)]
		more, err := annotateRecord(b, body, name, HeaderBytes+at)
		fields = append(fields, more...)
		if err != nil {
			return fields, recordFailure(int(i), err)
		}
		at += int(length)
	}
	return fields, nil
}

func annotateHeader(b Batch) []layout.Field {
	crc := "holds"
	if computed := b.ComputeCRC(); computed != b.CRC() {
		crc = fmt.Sprintf("is %08x, computed %08x", b.CRC(), computed)
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []layout.Field{
		{Name: "base offset", At: baseOffsetAt, Bytes: 8, Value: number(b.BaseOffset())},
		{Name: "batch length", At: lengthAt, Bytes: 4, Value: fmt.Sprintf("%d, %d with what is before", b.SizeBytes()-PrefixBytes, b.SizeBytes())},
		{Name: "leader epoch", At: leaderEpochAt, Bytes: 4, Value: number(int64(b.LeaderEpoch()))},
		{Name: "magic", At: magicAt, Bytes: 1, Value: number(int64(b.Magic()))},
		{Name: "CRC-32C", At: crcAt, Bytes: 4, Value: crc},
		{Name: "attributes", At: attributesAt, Bytes: 2, Value: b.AttributeNames()},
		{Name: "last offset delta", At: lastOffsetDeltaAt, Bytes: 4, Value: number(int64(b.LastOffsetDelta()))},
		{Name: "base timestamp", At: baseTimestampAt, Bytes: 8, Value: layout.Millis(b.BaseTimestamp())},
		{Name: "largest timestamp", At: maxTimestampAt, Bytes: 8, Value: layout.Millis(b.MaxTimestamp())},
		{Name: "producer id", At: producerIDAt, Bytes: 8, Value: number(b.ProducerID())},
		{Name: "producer epoch", At: producerEpochAt, Bytes: 2, Value: number(int64(b.ProducerEpoch()))},
		{Name: "base sequence", At: baseSequenceAt, Bytes: 4, Value: number(int64(b.BaseSequence()))},
		{Name: "record count", At: recordCountAt, Bytes: 4, Value: number(int64(b.RecordCount()))},
	}
}

// AttributeNames says in words what the attributes of a batch are: its codec, and whose its
// timestamps and records are.
func (b Batch) AttributeNames() string {
	names := []string{b.Codec().String()}
	if b.LogAppendTime() {
		names = append(names, "LogAppendTime")
	}
	if b.Transactional() {
		names = append(names, "transactional")
	}
	if b.Control() {
		names = append(names, "control")
	}
	if millis, ok := b.DeleteHorizon(); ok {
		names = append(names, "delete horizon "+layout.Millis(millis))
	}
	return strings.Join(names, ", ")
}

// Names of the fields of a record in the order in which parseRecord reads them; those of a header
// come again for each.
var (
	recordFieldNames = []string{"timestamp delta", "offset delta", "key length", "key", "value length", "value", "headers"}
	headerFieldNames = []string{"header key length", "header key", "header value length", "header value"}
)

// annotateRecord names the fields of a record's body, which begins at position at of its batch.
func annotateRecord(b Batch, body []byte, prefix string, at int) (fields []layout.Field, err error) {
	var r Record
	next, visited := 1, 0
	if len(body) > 0 {
		fields = append(fields, layout.Field{Name: prefix + "attributes", At: at, Bytes: 1, Value: strconv.Itoa(int(body[0]))})
	}
	err = parseRecordFields(body, &r, func(left int) {
		end := len(body) - left
		name := ""
		if visited < len(recordFieldNames) {
			name = recordFieldNames[visited]
		} else {
			header := visited - len(recordFieldNames)
			name = headerFieldNames[header%len(headerFieldNames)]
		}
		if end > next { // null has no bytes
			fields = append(fields, layout.Field{Name: prefix + name, At: at + next, Bytes: end - next, Value: annotateValue(name, body[next:end])})
		}
		next = end
		visited++
	})
	for i := range fields {
		switch strings.TrimPrefix(fields[i].Name, prefix) {
		case "timestamp delta":
			fields[i].Value += ": " + layout.Millis(b.recordTimestamp(r.TimestampDelta))
		case "offset delta":
			fields[i].Value += ": " + strconv.FormatInt(b.BaseOffset()+int64(r.OffsetDelta), 10)
		}
	}
	return fields, err
}

// annotateValue says what the bytes of a field are: text that may be anybody's, or a number.
func annotateValue(name string, field []byte) string {
	switch name {
	case "key", "value", "header key", "header value":
		return layout.Text(field)
	}
	n, _ := varlong(field)
	if n < 0 && strings.HasSuffix(name, "length") {
		return strconv.FormatInt(n, 10) + ", null"
	}
	return strconv.FormatInt(n, 10)
}
