package main

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// jsonRecord is a record as one line of JSON: what consume writes, produce
// reads. Bytes that are no UTF-8 stand in the field with _base64; a key or value
// that is null (a tombstone) is null or absent, an empty one is "".
type jsonRecord struct {
	Topic       string       `json:"topic,omitempty"`
	Partition   *int32       `json:"partition,omitempty"`
	Offset      *int64       `json:"offset,omitempty"`
	Timestamp   *time.Time   `json:"timestamp,omitempty"`
	AppendTime  bool         `json:"append_time,omitempty"` // the timestamp is the broker's
	Key         *string      `json:"key,omitempty"`
	KeyBase64   []byte       `json:"key_base64,omitempty"`
	Headers     []jsonHeader `json:"headers,omitempty"`
	Value       *string      `json:"value"`
	ValueBase64 []byte       `json:"value_base64,omitempty"`
	// Says is what dump makes of a record of committed offsets; produce ignores it.
	Says string `json:"says,omitempty"`
}

type jsonHeader struct {
	Name        string  `json:"name"`
	Value       *string `json:"value"`
	ValueBase64 []byte  `json:"value_base64,omitempty"`
}

// toJSON returns a fetched record.
func toJSON(record *kgo.Record) jsonRecord {
	line := jsonRecord{
		Topic:      record.Topic,
		Partition:  &record.Partition,
		Offset:     &record.Offset,
		AppendTime: record.Attrs.TimestampType() == 1,
	}
	timestamp := record.Timestamp.UTC()
	line.Timestamp = &timestamp
	line.Key, line.KeyBase64 = splitText(record.Key)
	line.Value, line.ValueBase64 = splitText(record.Value)
	for _, header := range record.Headers {
		h := jsonHeader{Name: header.Key}
		h.Value, h.ValueBase64 = splitText(header.Value)
		line.Headers = append(line.Headers, h)
	}
	return line
}

// fromJSON parses one line into a record to be produced. Topic and offset are
// the destination's business and are ignored; the partition is set only when
// asked for, as the destination may have others.
func fromJSON(text []byte, keepPartition bool) (*kgo.Record, error) {
	var line jsonRecord
	if err := json.Unmarshal(text, &line); err != nil {
		return nil, fmt.Errorf("not a record in JSON: %w", err)
	}
	record := &kgo.Record{Partition: -1}
	var err error
	if record.Key, err = joinText("key", line.Key, line.KeyBase64); err != nil {
		return nil, err
	}
	if record.Value, err = joinText("value", line.Value, line.ValueBase64); err != nil {
		return nil, err
	}
	for _, header := range line.Headers {
		value, err := joinText("header "+header.Name, header.Value, header.ValueBase64)
		if err != nil {
			return nil, err
		}
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: header.Name, Value: value})
	}
	if line.Timestamp != nil {
		record.Timestamp = *line.Timestamp
	}
	if keepPartition {
		if line.Partition == nil {
			return nil, fmt.Errorf(`--keep-partitions needs a "partition" in every line`)
		}
		record.Partition = *line.Partition
	}
	return record, nil
}

// splitText returns bytes as text where they are text, else as they are; null
// is neither.
func splitText(data []byte) (text *string, raw []byte) {
	if data == nil {
		return nil, nil
	}
	if !utf8.Valid(data) {
		return nil, data
	}
	s := string(data)
	return &s, nil
}

// joinText is the inverse of splitText.
func joinText(name string, text *string, raw []byte) ([]byte, error) {
	switch {
	case text != nil && raw != nil:
		return nil, fmt.Errorf("%s is given both as text and as base64", name)
	case text != nil:
		return []byte(*text), nil
	}
	return raw, nil
}
