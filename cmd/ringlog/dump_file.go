package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"ringlog/dump"
	"ringlog/engine/segment"
	"ringlog/internal/layout"
	"ringlog/meta"
	"ringlog/raftctl"
	"ringlog/replica"
)

// showFile shows one file of a data directory, whichever it is.
func (d *dumper) showFile(ctx context.Context, path string) error {
	release, err := d.holdFile(path)
	if err != nil {
		return err
	}
	defer release()
	if filepath.Base(path) == filepath.Base(raftctl.Path("")) {
		return d.showMetadata(ctx, path)
	}
	fsys, name := os.DirFS(filepath.Dir(path)), filepath.Base(path)
	kind, err := dump.KindOf(fsys, name)
	if errors.Is(err, dump.ErrUnknownFile) {
		return &failure{exitUsage, err, "dump reads the files of a data directory: *.log, *.index, *.timeindex, *.snapshot, log.meta, placement, shard-*, *.spill, metadata.db"}
	}
	if err != nil {
		return err
	}
	output := bufio.NewWriter(d.output)
	switch kind {
	case dump.SegmentFile:
		err = d.showSegment(ctx, output, path)
	case dump.StoredFile:
		err = d.showStored(output, path)
	case dump.JournalFile:
		err = d.showJournal(ctx, output, path)
	case dump.SpillFile:
		err = d.showSpill(ctx, output, path)
	case dump.UnknownFile:
	}
	return errors.Join(err, output.Flush())
}

// showSegment shows the batches of one file.
func (d *dumper) showSegment(ctx context.Context, output *bufio.Writer, path string) error {
	show := d.shower(output, "")
	var failed error
	end, err := dump.SegmentBatches(os.DirFS(filepath.Dir(path)), filepath.Base(path), func(at dump.Located) bool {
		if at.Batch.LastOffset() < d.from {
			return true
		}
		if at.Batch.BaseOffset() >= d.to {
			return false
		}
		failed = errors.Join(ctx.Err(), show(at))
		return failed == nil && !d.enough()
	})
	if err = errors.Join(failed, err); err != nil {
		return err
	}
	if !d.json && !d.enough() {
		fmt.Fprintf(output, "end: byte %d, offset %d", end.Position, end.Offset)
		if end.Reason != nil {
			fmt.Fprintf(output, "; behind it: %v", end.Reason)
		}
		fmt.Fprintln(output)
	}
	return nil
}

// storedReport is a file of one block; --json prints it as it is.
type storedReport struct {
	File      string     `json:"file"`
	Kind      string     `json:"kind"`
	Content   any        `json:"content,omitempty"`
	Producers any        `json:"producers,omitempty"` // of a snapshot
	Error     string     `json:"error,omitempty"`
	Fields    []hexField `json:"fields,omitempty"`

	producers []replica.ProducerState
}

// showStored shows a file of one block. A damaged one is shown as far as it can be read.
func (d *dumper) showStored(output *bufio.Writer, path string) error {
	kind, content, data, fields, err := dump.Stored(os.DirFS(filepath.Dir(path)), filepath.Base(path))
	if data == nil {
		return err
	}
	report := storedReport{File: path, Kind: kind.String(), Content: storedContent(content)}
	if err != nil {
		report.Error = err.Error()
	}
	if snapshot, ok := content.(*segment.Snapshot); ok {
		producers, invalid := replica.ReadProducers(snapshot.State)
		if invalid != nil {
			report.Error = invalid.Error()
		} else {
			report.producers, report.Producers = producers, snakeCase(producers)
		}
	}
	if d.hex {
		report.Fields = hexFields(0, data, fields)
	}
	switch {
	case d.json:
		encoder := json.NewEncoder(output)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(report); err != nil {
			return err
		}
	default:
		d.printStored(output, &report, data, fields)
	}
	if err != nil {
		return &failure{code: exitDamaged, cause: err}
	}
	return nil
}

// printStored writes every field, with its bytes or without.
func (d *dumper) printStored(output *bufio.Writer, report *storedReport, data []byte, fields []layout.Field) {
	fmt.Fprintf(output, "%s: %s, %d bytes\n", report.File, report.Kind, len(data))
	if d.hex {
		_ = layout.Write(output, 0, data, fields) // output keeps the error
	} else {
		var rows [][]string
		for i, f := range fields {
			if d.limit > 0 && int64(i) >= d.limit {
				break
			}
			rows = append(rows, []string{f.Name, f.Value})
		}
		table(output, rows)
	}
	for _, p := range report.producers {
		fmt.Fprintf(output, "producer %d: epoch %d, last sequence %d, last timestamp %s, last append %s\n",
			p.ID, p.Epoch, p.LastSequence, timeText(p.LastTimestamp), timeText(p.LastAppend))
	}
}

// storedContent is what a decoder returned, in the JSON of this program.
func storedContent(content any) any {
	switch c := content.(type) {
	case nil:
		return nil
	case *segment.Index:
		type entry struct{ Position, BaseOffset, MaxTimestampBefore int64 }
		entries := make([]entry, c.Entries())
		for i := range entries {
			entries[i].Position, entries[i].BaseOffset, entries[i].MaxTimestampBefore = c.Entry(i)
		}
		return snakeCase(struct {
			*segment.Index
			Entries []entry
		}{c, entries})
	case *segment.Snapshot: // the state follows as producers
		return snakeCase(struct {
			Offset     int64
			StateBytes int
		}{c.Offset, len(c.State)})
	}
	return snakeCase(content)
}

// frameReport is one frame of a journal; --json prints each as a line.
type frameReport struct {
	Position int64         `json:"position"`
	Bytes    int           `json:"bytes"`
	Run      uint64        `json:"run"`
	Sequence uint64        `json:"sequence"`
	Flushed  uint64        `json:"flushed"`
	From     uint64        `json:"from"`
	Needed   bool          `json:"needed"` // a start looks at it; else it is of an older lap
	Whole    bool          `json:"whole"`
	Error    string        `json:"error,omitempty"`
	Entries  []entryReport `json:"entries"`
	Fields   []hexField    `json:"fields,omitempty"`
}

type entryReport struct {
	Log           string `json:"log"`
	Generation    uint64 `json:"generation"`
	PreviousEnd   int64  `json:"previous_end"`
	FirstOffset   int64  `json:"first_offset"`
	LastOffset    int64  `json:"last_offset"`
	Epoch         int32  `json:"epoch"`
	Durable       int64  `json:"durable"`
	HighWatermark int64  `json:"high_watermark"`
	Position      int64  `json:"position"`
	Bytes         int    `json:"bytes"`
	Whole         bool   `json:"whole"`
}

func newFrameReport(f *dump.FrameAt) frameReport {
	report := frameReport{Position: f.Position, Bytes: f.Bytes, Run: f.Run, Sequence: f.Sequence, Flushed: f.Flushed, From: f.From,
		Needed: f.Needed, Whole: f.Whole, Entries: []entryReport{}}
	if f.Error != nil {
		report.Error = f.Error.Error()
	}
	for i := range f.Entries {
		e := &f.Entries[i]
		report.Entries = append(report.Entries, entryReport{fmt.Sprintf("%x", e.LogID), e.Gen, e.PreviousEnd, e.FirstOffset, e.LastOffset, e.Epoch,
			e.Durable, e.HighWatermark, e.Position, e.Bytes, e.Whole})
	}
	return report
}

// showJournal shows the frames of a commit journal.
func (d *dumper) showJournal(ctx context.Context, output *bufio.Writer, path string) error {
	s, err := dump.Open(os.DirFS(filepath.Dir(path)))
	if err != nil {
		return err
	}
	shard, _, _ := segment.ParseShardName(filepath.Base(path))
	r, err := s.Ring(shard)
	if err != nil {
		return err
	}
	if !d.json {
		report := newRingReport(r)
		fmt.Fprintf(output, "%s: %d bytes, run %d, %d frames, of which a start merges %d\n", path, report.Bytes, report.Run, report.Frames, report.Needed)
		for _, err := range []error{r.HeadError, r.CheckpointError} {
			if err != nil {
				fmt.Fprintf(output, "  %v\n", err)
			}
		}
		for _, damaged := range r.Verdict.Damaged {
			fmt.Fprintf(output, "  frames %d to %d were flushed and are damaged or gone\n", damaged.From, damaged.To-1)
		}
	}
	return d.showFrames(ctx, output, s, filepath.Base(path), r.Frames, r.Store)
}

// showSpill shows what was put aside of a log.
func (d *dumper) showSpill(ctx context.Context, output *bufio.Writer, path string) error {
	s, err := dump.Open(os.DirFS(filepath.Dir(path)))
	if err != nil {
		return err
	}
	store, ok := s.StoreID()
	if !ok {
		return fmt.Errorf("%s: neither a checkpoint nor a journal beside it says the id of its store, without which frames cannot be told from other bytes", path)
	}
	id, _ := dump.SpillOf(path)
	frames, damage := s.Spill(id, store)
	if err := d.showFrames(ctx, output, s, filepath.Base(path), frames, store); err != nil {
		return err
	}
	return damage
}

// showFrames writes frames with their entries.
func (d *dumper) showFrames(ctx context.Context, output *bufio.Writer, s *dump.Store, name string, frames []dump.FrameAt, store [16]byte) error {
	encoder := json.NewEncoder(output)
	for i := range frames {
		if err := ctx.Err(); err != nil {
			return err
		}
		if d.enough() {
			return nil
		}
		d.shown++
		report := newFrameReport(&frames[i])
		var data []byte
		var fields []layout.Field
		if d.hex {
			var err error
			if data, fields, err = s.FrameBytes(name, &frames[i], store); err != nil {
				report.Error = err.Error()
			}
			report.Fields = hexFields(report.Position, data, fields)
		}
		if d.json {
			if err := encoder.Encode(report); err != nil {
				return err
			}
			continue
		}
		printFrame(output, &report)
		if d.hex {
			if err := layout.Write(output, report.Position, data, fields); err != nil {
				return err
			}
		}
	}
	return nil
}

func printFrame(output *bufio.Writer, r *frameReport) {
	state := "of an older lap"
	if r.Needed {
		state = "needed"
	}
	if !r.Whole {
		state += ", damaged"
	}
	fmt.Fprintf(output, "byte %d: frame %d of run %d, %d bytes, flushed %d, from %d, %s", r.Position, r.Sequence, r.Run, r.Bytes, r.Flushed, r.From, state)
	if r.Error != "" {
		fmt.Fprintf(output, ": %s", r.Error)
	}
	fmt.Fprintln(output)
	for i := range r.Entries {
		e := &r.Entries[i]
		damaged := ""
		if !e.Whole {
			damaged = ", damaged"
		}
		fmt.Fprintf(output, "    log %s generation %d: offsets %d..%d behind %d, epoch %d, durable %d, high watermark %d, %d bytes at %d%s\n",
			e.Log, e.Generation, e.FirstOffset, e.LastOffset, e.PreviousEnd, e.Epoch, e.Durable, e.HighWatermark, e.Bytes, e.Position, damaged)
	}
}

// metadataReport is a metadata store; --json prints it as it is.
type metadataReport struct {
	File          string          `json:"file"`
	NodeID        int32           `json:"node_id"`
	ClusterID     string          `json:"cluster_id"`
	Term          uint64          `json:"term"`
	Vote          int32           `json:"vote"` // -1: none
	Commit        uint64          `json:"commit"`
	SnapshotIndex uint64          `json:"snapshot_index"`
	SnapshotBytes int64           `json:"snapshot_bytes"`
	Voters        []int32         `json:"voters"`
	Entries       []metadataEntry `json:"entries"`
	Brokers       any             `json:"brokers"`
	Topics        any             `json:"topics"`
	Tombstones    any             `json:"tombstones"`
	NextProducer  int64           `json:"next_producer_id"`

	image *meta.Image
}

type metadataEntry struct {
	Index     uint64 `json:"index"`
	Term      uint64 `json:"term"`
	Bytes     int    `json:"bytes"`
	Session   string `json:"session,omitempty"`
	Proposal  uint64 `json:"proposal,omitempty"`
	Command   string `json:"command,omitempty"` // its type
	Content   any    `json:"content,omitempty"`
	Committed bool   `json:"committed"`
	Refusal   string `json:"refusal,omitempty"`
}

// showMetadata shows the metadata log and the cluster that it comes to.
func (d *dumper) showMetadata(ctx context.Context, path string) error {
	if d.hex {
		return usageErrorf("%s is a bbolt file, whose pages are that library's: --hex names the bytes of every other file", path)
	}
	found, err := d.metadata(ctx, path)
	if errors.Is(err, raftctl.ErrCorrupt) {
		return &failure{code: exitDamaged, cause: err}
	}
	if err != nil {
		return err
	}
	report := metadataReport{File: path, NodeID: found.NodeID, ClusterID: found.ClusterID, Term: found.Term, Vote: found.Vote, Commit: found.Commit,
		SnapshotIndex: found.SnapshotIndex, SnapshotBytes: found.SnapshotBytes, Voters: found.Voters, Entries: []metadataEntry{},
		Brokers: snakeCase(found.Image.Brokers()), Topics: snakeCase(slices.Collect(found.Image.Topics())), Tombstones: snakeCase(found.Image.Tombstones()),
		NextProducer: found.Image.NextProducerID(), image: found.Image}
	for i := range found.Entries {
		e := &found.Entries[i]
		entry := metadataEntry{Index: e.Index, Term: e.Term, Bytes: e.Bytes, Committed: e.Committed}
		if e.Command != nil {
			entry.Command, entry.Content = commandName(e.Command), snakeCase(e.Command)
			entry.Session, entry.Proposal = fmt.Sprintf("%016x", e.Session), e.Proposal
		}
		if e.Refusal != nil {
			entry.Refusal = e.Refusal.Error()
		}
		report.Entries = append(report.Entries, entry)
	}
	return d.print(report, func() { d.printMetadata(&report) })
}

// commandName is the type of a command without its package.
func commandName(command meta.Command) string {
	name := fmt.Sprintf("%T", command)
	return name[len("meta."):]
}

func (d *dumper) printMetadata(r *metadataReport) {
	fmt.Fprintf(d.output, "%s: broker %d of cluster %s, term %d, committed %d, snapshot as of %d (%d bytes), voters %s\n", r.File, r.NodeID, r.ClusterID, r.Term,
		r.Commit, r.SnapshotIndex, r.SnapshotBytes, joinNumbers(r.Voters))
	for _, e := range r.Entries {
		if d.enough() {
			return
		}
		d.shown++
		text := "begin of a term"
		if e.Command != "" {
			content, err := json.Marshal(e.Content)
			if err != nil {
				content = []byte(err.Error())
			}
			text = e.Command + " " + string(content)
		}
		if !e.Committed {
			text += " (not committed)"
		}
		if e.Refusal != "" {
			text += " (refused: " + e.Refusal + ")"
		}
		fmt.Fprintf(d.output, "entry %d, term %d: %s\n", e.Index, e.Term, text)
	}
	for _, b := range r.image.Brokers() {
		fmt.Fprintf(d.output, "broker %d at %s:%d, leader epoch %d\n", b.ID, b.Host, b.Port, b.LeaderEpoch)
	}
	for topic := range r.image.Topics() {
		fmt.Fprintf(d.output, "topic %s (%s)\n", topic.Name, topic.ID)
		for i := range topic.Partitions {
			p := &topic.Partitions[i]
			fmt.Fprintf(d.output, "  partition %d: log %s, leader %d, leader epoch %d, partition epoch %d, replicas %s, in sync %s\n",
				p.ID, p.LogID, p.Leader, p.LeaderEpoch, p.PartitionEpoch, joinNumbers(p.Replicas), joinNumbers(p.ISR))
		}
	}
	for _, t := range r.image.Tombstones() {
		fmt.Fprintf(d.output, "deleted: %s, log %s, still on brokers %s\n", t.Label, t.LogID, joinNumbers(t.Brokers))
	}
}
