package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"

	"github.com/twmb/franz-go/pkg/kgo"
)

// lineBytesMax bounds what one line, or one whole input, may take in memory:
// far above what a broker accepts in a batch.
const lineBytesMax = 128 << 20

// reader returns the records of an input in the form that the flags name. It
// stops at the first line that is no record.
func (f produceFlags) reader(input io.Reader) (iter.Seq2[*kgo.Record, error], error) {
	headers := headersFrom(f.headers)
	finish := func(record *kgo.Record) *kgo.Record {
		record.Headers = append(record.Headers, headers...)
		if f.partition >= 0 {
			record.Partition = f.partition
		}
		if f.emptyAsNull {
			record.Key, record.Value = nullWhenEmpty(record.Key), nullWhenEmpty(record.Value)
		}
		return record
	}
	switch f.input {
	case "lines":
		return lines(input, func(line []byte) (*kgo.Record, error) {
			record, err := f.fromLine(line)
			if err != nil {
				return nil, err
			}
			return finish(record), nil
		}), nil
	case "json":
		return lines(input, func(line []byte) (*kgo.Record, error) {
			record, err := fromJSON(line, f.keepPartitions)
			if err != nil {
				return nil, err
			}
			return finish(record), nil
		}), nil
	case "whole":
		return func(yield func(*kgo.Record, error) bool) {
			value, err := io.ReadAll(io.LimitReader(input, lineBytesMax+1))
			switch {
			case err != nil:
				yield(nil, fmt.Errorf("reading standard input: %w", err))
			case len(value) > lineBytesMax:
				yield(nil, fmt.Errorf("standard input is longer than %d bytes, more than any record", lineBytesMax))
			default:
				yield(finish(&kgo.Record{Partition: -1, Value: value}), nil)
			}
		}, nil
	}
	return nil, usageErrorf("--input %q is none of lines, json, whole", f.input)
}

// incomingRecord is a record on its way in, or why there is none.
type incomingRecord struct {
	record *kgo.Record
	err    error
}

// pump reads records on a goroutine of their own, so that an interrupt is not
// kept waiting by a terminal or pipe that says nothing. The goroutine ends
// with the input, or with ctx at the next line.
func pump(ctx context.Context, records iter.Seq2[*kgo.Record, error]) <-chan incomingRecord {
	incoming := make(chan incomingRecord, 256)
	go func() {
		defer close(incoming)
		for record, err := range records {
			select {
			case incoming <- incomingRecord{record, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return incoming
}

// fromLine splits a line of text into key and value.
func (f produceFlags) fromLine(line []byte) (*kgo.Record, error) {
	record := &kgo.Record{Partition: -1, Value: append([]byte{}, line...)}
	if f.keyDelimiter == "" {
		return record, nil
	}
	key, value, found := bytes.Cut(record.Value, []byte(f.keyDelimiter))
	if !found {
		return nil, fmt.Errorf("there is no key delimiter %q", f.keyDelimiter)
	}
	// An empty part of a line is empty, never null: see --empty-as-null.
	record.Key, record.Value = key, value
	return record, nil
}

// lines yields a record for each line of an input.
func lines(input io.Reader, parse func(line []byte) (*kgo.Record, error)) iter.Seq2[*kgo.Record, error] {
	return func(yield func(*kgo.Record, error) bool) {
		scanner := bufio.NewScanner(input)
		scanner.Buffer(make([]byte, 64<<10), lineBytesMax)
		for number := 1; scanner.Scan(); number++ {
			record, err := parse(scanner.Bytes())
			if err != nil {
				yield(nil, fmt.Errorf("line %d: %w", number, err))
				return
			}
			if !yield(record, nil) {
				return
			}
		}
		if err := scanner.Err(); err != nil {
			yield(nil, fmt.Errorf("reading standard input: %w", err))
		}
	}
}

func nullWhenEmpty(data []byte) []byte {
	if len(data) == 0 {
		return nil
	}
	return data
}
