package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"ringlog/dump"
	"ringlog/raftctl"
	"ringlog/server"
)

// storeReport is what a data directory holds; --json prints it as it is.
type storeReport struct {
	Directory string         `json:"directory"`
	Owner     *ownerReport   `json:"owner,omitempty"`
	Logs      []dump.Summary `json:"logs"`
	Journals  []ringReport   `json:"journals"`
	Spills    []string       `json:"spills,omitempty"`
	Deleted   []string       `json:"deleted,omitempty"`
	Unknown   []string       `json:"unknown,omitempty"` // names that the engine does not give
}

type ownerReport struct {
	ClusterID   string `json:"cluster_id"`
	NodeID      int32  `json:"node_id"`
	DirectoryID string `json:"directory_id"`
	Formatted   bool   `json:"formatted"`
}

// ringReport is one commit journal at a glance.
type ringReport struct {
	Shard   int    `json:"shard"`
	Bytes   int64  `json:"bytes"`
	Run     uint64 `json:"run"`
	Frames  int    `json:"frames"`  // found, of all laps
	Needed  int    `json:"needed"`  // that a start merges
	Entries int    `json:"entries"` // of those
	Dropped int    `json:"dropped"` // behind the journal's end
	Damaged int    `json:"damaged"` // ranges of frames that were flushed and are bad
	Error   string `json:"error,omitempty"`
}

func newRingReport(r *dump.Ring) ringReport {
	report := ringReport{Shard: r.Shard, Bytes: r.Bytes, Run: r.Verdict.Run, Frames: len(r.Frames),
		Needed: len(r.Verdict.Take), Dropped: len(r.Verdict.Dropped), Damaged: len(r.Verdict.Damaged)}
	for _, frame := range r.Taken() {
		report.Entries += len(frame.Entries)
	}
	if err := errors.Join(r.HeadError, r.CheckpointError); err != nil {
		report.Error = err.Error()
	}
	return report
}

// showStore shows what the data directory holds.
func (d *dumper) showStore() error {
	s, err := d.store()
	if err != nil {
		return err
	}
	journals, err := s.ReadJournals()
	if err != nil {
		return err
	}
	report := storeReport{Directory: d.dataDir, Logs: []dump.Summary{}, Journals: []ringReport{}, Deleted: s.Deleted, Unknown: s.Strangers}
	if owner, err := server.ReadOwner(d.dataDir); err == nil {
		report.Owner = &ownerReport{owner.ClusterID, owner.NodeID, fmt.Sprintf("%x", owner.DirectoryID), owner.Formatted}
	}
	for _, id := range s.LogIDs {
		log, err := s.Log(id)
		if err != nil {
			report.Logs = append(report.Logs, dump.Summary{ID: id.String(), Error: err.Error()})
			continue
		}
		report.Logs = append(report.Logs, log.Summary(journals))
	}
	slices.SortStableFunc(report.Logs, func(a, b dump.Summary) int { return compareLabels(a.Label, b.Label) })
	for _, r := range journals.Rings {
		report.Journals = append(report.Journals, newRingReport(r))
	}
	for _, id := range s.Spills {
		report.Spills = append(report.Spills, id.String())
	}
	return d.print(report, func() { d.printStore(&report) })
}

func (d *dumper) printStore(report *storeReport) {
	if o := report.Owner; o != nil {
		fmt.Fprintf(d.output, "%s: broker %d of cluster %s\n", report.Directory, o.NodeID, o.ClusterID)
	} else {
		fmt.Fprintf(d.output, "%s: nobody knows whose; ringlog.properties is missing or damaged\n", report.Directory)
	}
	rows := [][]string{{"LOG", "ID", "START", "END", "SEGMENTS", "BYTES", "ON DISK", "IN THE JOURNAL ALONE"}}
	for i := range report.Logs {
		s := &report.Logs[i]
		if s.Error != "" {
			rows = append(rows, []string{s.Label, s.ID, s.Error})
			continue
		}
		rows = append(rows, []string{s.Label, s.ID, strconv.FormatInt(s.StartOffset, 10), strconv.FormatInt(s.EndOffset, 10), strconv.Itoa(s.Segments),
			strconv.FormatInt(s.Bytes, 10), strconv.FormatInt(s.DiskBytes, 10), count(s.JournalBatches, "batch")})
	}
	table(d.output, rows)
	for i := range report.Journals {
		r := &report.Journals[i]
		fmt.Fprintf(d.output, "journal of shard %d: run %d, %d bytes, %d frames, of which a start merges %d with %d entries\n", r.Shard, r.Run, r.Bytes, r.Frames, r.Needed, r.Entries)
		if r.Damaged > 0 || r.Error != "" {
			fmt.Fprintf(d.output, "  damaged: ringlog dump --verify --data-dir %s says where\n", report.Directory)
		}
	}
	for _, id := range report.Spills {
		fmt.Fprintf(d.output, "%s.spill: what the journal held of a failed log\n", id)
	}
	for _, name := range report.Unknown {
		fmt.Fprintf(d.output, "%s: not a name that the engine gives\n", name)
	}
}

// verifyReport is what --verify found; --json prints it as it is.
type verifyReport struct {
	Directory string `json:"directory"`
	Whole     bool   `json:"whole"` // no damage
	*dump.Report
	Metadata string  `json:"metadata"` // "whole", or what is wrong with it
	Seconds  float64 `json:"seconds"`
}

// verifyStore checks the whole data directory.
func (d *dumper) verifyStore(ctx context.Context) error {
	s, err := d.store()
	if err != nil {
		return err
	}
	began := time.Now()
	options := dump.Options{Records: d.records, Live: d.live}
	result := verifyReport{Directory: d.dataDir, Metadata: "whole"}
	path := raftctl.Path(d.dataDir)
	found, metadataErr := d.metadata(ctx, path)
	switch {
	case metadataErr == nil:
		options.Image, options.NodeID = found.Image, found.NodeID
	case errors.Is(metadataErr, context.Canceled):
		return metadataErr
	default:
		result.Metadata = metadataErr.Error()
	}
	bar := d.bytesProgress("verify")
	options.Progress = bar.set
	result.Report, err = dump.Verify(ctx, s, options)
	bar.done()
	if err != nil {
		return err
	}
	if metadataErr != nil {
		result.Damages = append(result.Damages, dump.MetadataDamage(path, metadataErr))
	}
	d.verifyOwner(&result, found)
	result.Whole, result.Seconds = len(result.Damages) == 0, time.Since(began).Seconds()
	if err := d.print(result, func() { d.printVerified(&result) }); err != nil {
		return err
	}
	if !result.Whole {
		return &failure{code: exitDamaged, cause: fmt.Errorf("%s is damaged in %s, %d of which may have cost records",
			d.dataDir, count(len(result.Damages), "place"), result.Lost())}
	}
	return nil
}

// verifyOwner holds ringlog.properties against the metadata.
func (d *dumper) verifyOwner(result *verifyReport, found *raftctl.Inspection) {
	owner, err := server.ReadOwner(d.dataDir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		err = errors.New("it is missing")
	case err == nil && found != nil && (owner.ClusterID != found.ClusterID || owner.NodeID != found.NodeID):
		err = fmt.Errorf("it is of broker %d of cluster %s, and metadata.db of broker %d of cluster %s", owner.NodeID, owner.ClusterID, found.NodeID, found.ClusterID)
	}
	if err != nil {
		result.Damages = append(result.Damages, dump.OwnerDamage(err))
	}
}

func (d *dumper) printVerified(result *verifyReport) {
	for i := range result.Damages {
		damage := &result.Damages[i]
		fmt.Fprintf(d.output, "DAMAGE (%s) %s\n    do: %s\n", damage.Severity, damage.String(), damage.Do)
	}
	for _, note := range result.Notes {
		where := note.File
		if note.Log != "" {
			where += ", log " + note.Log
		}
		fmt.Fprintf(d.output, "note: %s: %s\n", where, note.What)
	}
	fmt.Fprintf(d.output, "%s, %s, %d batches with %d records, %s, %s, %s that may be needed: %d bytes in %.1f s\n",
		count(result.Logs, "log"), count(result.Segments, "segment"), result.Batches, result.Records, count(result.Indexes, "index"), count(result.Snapshots, "snapshot"),
		count(result.Frames, "journal frame"), result.Bytes, result.Seconds)
	if result.Whole {
		fmt.Fprintf(d.output, "%s is whole\n", result.Directory)
	}
}
