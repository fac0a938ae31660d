package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ringlog/dump"
	"ringlog/internal/layout"
	"ringlog/record"
)

// batchReport is one batch as it lies on the disk; --json prints each as a line.
type batchReport struct {
	Log           string     `json:"log,omitempty"` // "orders-3"
	File          string     `json:"file"`
	Position      int64      `json:"position"`
	Bytes         int        `json:"bytes"`
	Journal       bool       `json:"journal,omitempty"` // it lies in the commit journal alone
	BaseOffset    int64      `json:"base_offset"`
	LastOffset    int64      `json:"last_offset"`
	LeaderEpoch   int32      `json:"leader_epoch"`
	Records       int32      `json:"records"`
	Attributes    string     `json:"attributes"`
	BaseTimestamp int64      `json:"base_timestamp"`
	MaxTimestamp  int64      `json:"max_timestamp"`
	ProducerID    int64      `json:"producer_id"` // -1: none
	ProducerEpoch int16      `json:"producer_epoch"`
	BaseSequence  int32      `json:"base_sequence"`
	CRC           string     `json:"crc"`
	Fields        []hexField `json:"fields,omitempty"`
}

// hexField is one field of a format with its bytes.
type hexField struct {
	Name     string `json:"name"`
	Position int64  `json:"position"` // in the file
	Bytes    string `json:"bytes"`    // in hex
	Value    string `json:"value,omitempty"`
}

// hexFields joins the names of fields with their bytes; base is where data begins in its file.
func hexFields(base int64, data []byte, fields []layout.Field) []hexField {
	out := make([]hexField, 0, len(fields))
	for _, f := range fields {
		part := data[min(f.At, len(data)):min(f.At+f.Bytes, len(data))]
		out = append(out, hexField{f.Name, base + int64(f.At), fmt.Sprintf("%x", part), f.Value})
	}
	return out
}

// showLogs shows the batches or records of logs.
func (d *dumper) showLogs(ctx context.Context, names []string) error {
	s, err := d.store()
	if err != nil {
		return err
	}
	journals, err := s.ReadJournals()
	if err != nil {
		return err
	}
	output := bufio.NewWriter(d.output)
	for _, name := range names {
		var logs []*dump.Log
		for _, id := range s.LogIDs {
			log, err := s.Log(id)
			switch {
			case err != nil && matchesLog(name, id.String(), ""):
				return errors.Join(output.Flush(), err)
			case err == nil && matchesLog(name, id.String(), log.Manifest.Label):
				logs = append(logs, log)
			}
		}
		slices.SortStableFunc(logs, func(a, b *dump.Log) int { return compareLabels(a.Manifest.Label, b.Manifest.Label) })
		for _, log := range logs {
			if err := d.showLog(ctx, output, log, journals); err != nil {
				return errors.Join(output.Flush(), err)
			}
		}
		if len(logs) == 0 {
			return errors.Join(output.Flush(), &failure{exitNotFound, fmt.Errorf("%s has no topic, partition or log %q, and there is no such file", d.dataDir, name),
				"see what it has: ringlog dump --data-dir " + d.dataDir})
		}
	}
	return output.Flush()
}

// showLog shows one log.
func (d *dumper) showLog(ctx context.Context, output *bufio.Writer, log *dump.Log, journals *dump.Journals) error {
	if !d.json {
		fmt.Fprintf(output, "%s (%s), from offset %d\n", log.Manifest.Label, log.ID, log.Manifest.Start)
	}
	show := d.shower(output, log.Manifest.Label)
	var failed error
	end, err := log.Batches(journals, max(d.from, log.Manifest.Start), d.to, func(at dump.Located) bool {
		failed = errors.Join(ctx.Err(), show(at))
		return failed == nil && !d.enough()
	})
	if err = errors.Join(failed, err); err != nil {
		return err
	}
	if !d.json && !d.enough() && end.Offset < d.to {
		fmt.Fprintf(output, "end: offset %d\n", end.Offset)
	}
	return nil
}

// shower returns the function that prints a batch, or its records, in the form asked for.
func (d *dumper) shower(output *bufio.Writer, label string) func(dump.Located) error {
	encoder := json.NewEncoder(output)
	encoder.SetEscapeHTML(false)
	var heading string
	return func(at dump.Located) error {
		if d.records {
			return d.showRecords(output, encoder, label, at)
		}
		d.shown++
		report := newBatchReport(label, at)
		var fields []layout.Field
		if d.hex {
			var err error
			if fields, err = record.Annotate(at.Batch); err != nil {
				fmt.Fprintf(d.errorOutput, "%s at byte %d: %v\n", at.File, at.Position, err)
			}
		}
		if d.json {
			report.Fields = hexFields(at.Position, at.Batch, fields)
			if !d.hex {
				report.Fields = nil
			}
			return encoder.Encode(report)
		}
		if d.hex {
			heading = ""
		}
		printBatch(output, &report, &heading)
		if d.hex {
			return layout.Write(output, at.Position, at.Batch, fields)
		}
		return nil
	}
}

func newBatchReport(label string, at dump.Located) batchReport {
	b := at.Batch
	return batchReport{Log: label, File: at.File, Position: at.Position, Bytes: len(b), Journal: at.Journal,
		BaseOffset: b.BaseOffset(), LastOffset: b.LastOffset(), LeaderEpoch: b.LeaderEpoch(), Records: b.RecordCount(),
		Attributes: b.AttributeNames(), BaseTimestamp: b.BaseTimestamp(), MaxTimestamp: b.MaxTimestamp(),
		ProducerID: b.ProducerID(), ProducerEpoch: b.ProducerEpoch(), BaseSequence: b.BaseSequence(), CRC: fmt.Sprintf("%08x", b.CRC())}
}

// printBatch writes a line, and the file's name above the first of each file.
func printBatch(output *bufio.Writer, r *batchReport, heading *string) {
	if *heading != r.File {
		*heading = r.File
		fmt.Fprintf(output, "%s\n%12s %9s %-25s %6s %8s  %-13s %-24s %s\n", r.File, "POSITION", "BYTES", "OFFSETS", "EPOCH", "RECORDS", "ATTRIBUTES", "LARGEST TIMESTAMP", "PRODUCER")
	}
	producer := ""
	if r.ProducerID >= 0 {
		producer = fmt.Sprintf("%d epoch %d sequence %d", r.ProducerID, r.ProducerEpoch, r.BaseSequence)
	}
	line := fmt.Sprintf("%12d %9d %-25s %6d %8d  %-13s %-24s %s", r.Position, r.Bytes, fmt.Sprintf("%d..%d", r.BaseOffset, r.LastOffset), r.LeaderEpoch,
		r.Records, r.Attributes, timeText(r.MaxTimestamp), producer)
	fmt.Fprintln(output, strings.TrimRight(line, " "))
}

// timeText writes Unix milliseconds as UTC.
func timeText(millis int64) string {
	if millis < 0 {
		return "none"
	}
	return time.UnixMilli(millis).UTC().Format("2006-01-02T15:04:05.000Z")
}

// showRecords unpacks a batch.
func (d *dumper) showRecords(output *bufio.Writer, encoder *json.Encoder, label string, at dump.Located) error {
	var reader record.Reader
	reader.Reset(at.Batch)
	defer reader.Close()
	for reader.Next() && !d.enough() {
		r := reader.Record()
		if r.Offset < d.from || r.Offset >= d.to {
			continue
		}
		d.shown++
		line := recordToJSON(label, at.Batch, r)
		if d.json {
			if err := encoder.Encode(line); err != nil {
				return err
			}
			continue
		}
		printRecord(output, label, at.Batch, r)
	}
	if err := reader.Err(); err != nil {
		return fmt.Errorf("%s at byte %d, the batch of offset %d: %w", at.File, at.Position, at.Batch.BaseOffset(), err)
	}
	return nil
}

// recordToJSON is toJSON for a record as it is stored.
func recordToJSON(label string, batch record.Batch, r *record.Record) jsonRecord {
	line := jsonRecord{Topic: label, Offset: &r.Offset, AppendTime: batch.LogAppendTime()}
	if topic, partition := splitLabel(label); partition >= 0 {
		line.Topic, line.Partition = topic, new(partition)
	}
	if line.Topic == offsetsTopic {
		line.Says = groupRecord(r.Key, r.Value)
	}
	timestamp := time.UnixMilli(r.Timestamp).UTC()
	line.Timestamp = &timestamp
	line.Key, line.KeyBase64 = splitText(r.Key)
	line.Value, line.ValueBase64 = splitText(r.Value)
	headers := r.Headers()
	for header, ok := headers.Next(); ok; header, ok = headers.Next() {
		h := jsonHeader{Name: string(header.Key)}
		h.Value, h.ValueBase64 = splitText(header.Value)
		line.Headers = append(line.Headers, h)
	}
	return line
}

func printRecord(output *bufio.Writer, label string, batch record.Batch, r *record.Record) {
	fmt.Fprintf(output, "%12d  %s", r.Offset, timeText(r.Timestamp))
	if batch.Control() {
		kind, ok := r.ControlType()
		fmt.Fprintf(output, "  control %d (known: %t)\n", kind, ok)
		return
	}
	if topic, _ := splitLabel(label); topic == offsetsTopic {
		if said := groupRecord(r.Key, r.Value); said != "" {
			fmt.Fprintf(output, "  %s\n", said)
			return
		}
	}
	printField(output, "key", r.Key)
	printField(output, "value", r.Value)
	headers := r.Headers()
	for header, ok := headers.Next(); ok; header, ok = headers.Next() {
		printField(output, "header "+string(header.Key), header.Value)
	}
	output.WriteByte('\n')
}

func printField(output *bufio.Writer, name string, data []byte) {
	if data == nil {
		fmt.Fprintf(output, "  %s null", name)
		return
	}
	fmt.Fprintf(output, "  %s %q", name, data)
}
