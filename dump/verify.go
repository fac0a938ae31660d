package dump

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"

	"ringlog/engine/segment"
	"ringlog/meta"
	"ringlog/replica"
)

// Options say how thorough Verify is.
type Options struct {
	// Image and NodeID say which logs there have to be; Image may be nil.
	Image  *meta.Image
	NodeID int32
	// Records: unpack and read every record too, not only the checksums of batches.
	Records bool
	// Live: a broker writes meanwhile.
	Live bool
	// Progress, if set, is told now and then how many bytes of how many were read.
	Progress func(done, total int64)
}

// partitionEpochUnmadeMax is up to which partition epoch a log may never have been made: the
// same as for package broker, which makes one then.
const partitionEpochUnmadeMax = 1

// verifier is the state of one Verify.
type verifier struct {
	store    *Store
	options  Options
	report   *Report
	journals *Journals
	last     map[meta.LogID]segment.CheckpointLog
	walker   walker
	total    int64
	told     int64 // bytes as of the last Progress
}

// Verify reads everything and says what is not as it was written. An error is a failure to read;
// damage is none.
func Verify(ctx context.Context, s *Store, options Options) (*Report, error) {
	v := &verifier{store: s, options: options, report: &Report{Damages: []Damage{}, Notes: []Note{}}}
	v.total = v.measure()
	v.checkpoints() // before the journal, and that before the segments: what is read later knows more
	if err := v.readJournals(); err != nil {
		return nil, err
	}
	for _, id := range s.LogIDs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := v.log(ctx, id); err != nil {
			return nil, err
		}
		v.report.Logs++
	}
	v.placement()
	v.image()
	v.strangers()
	v.progress(0)
	return v.report, nil
}

// measure adds up what there is to read.
func (v *verifier) measure() (total int64) {
	_ = fs.WalkDir(v.store.fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != segment.LogSuffix && path.Ext(name) != "."+segment.JournalKind {
			return nil // a file that went meanwhile is none to read
		}
		if info, err := entry.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total
}

// progressBytes is how much is read between two reports.
const progressBytes = 4 << 20

func (v *verifier) progress(read int64) {
	v.report.Bytes += read
	if v.options.Progress != nil && (v.report.Bytes-v.told >= progressBytes || read == 0) {
		v.told = v.report.Bytes
		v.options.Progress(v.report.Bytes, max(v.total, v.report.Bytes))
	}
}

// stored judges the error of a decoder of a small file; gone says that there is no such file.
func (v *verifier) stored(err error, name, log string, severity Severity, do string) (bad, gone bool) {
	var corrupt *segment.CorruptError
	switch {
	case err == nil:
		return false, false
	case errors.Is(err, fs.ErrNotExist):
		return true, true
	case errors.Is(err, segment.ErrNewerFormat):
		v.report.damage(Damage{Severity: severity, File: name, Log: log, What: err.Error(), Do: doNewerTool})
	case errors.As(err, &corrupt):
		v.report.damage(Damage{Severity: severity, File: name, Position: corrupt.Offset, Log: log, What: corrupt.Reason, Do: do})
	default:
		v.report.damage(Damage{Severity: severity, File: name, Log: log, What: err.Error(), Do: doHardware})
	}
	return true, false
}

// checkpoints reads those of all shards.
func (v *verifier) checkpoints() {
	for _, shard := range v.store.Checkpoints {
		_, err := v.store.Checkpoint(shard)
		v.stored(err, segment.CheckpointName(shard), "", Rebuilt,
			"start the broker: it reads every log of the shard from its last index on. What the file proved, that nothing durable is missing at the ends of logs, is not known then")
	}
	v.last = v.store.checkpoints()
}

// readJournals reads the journals and judges them as a start would.
func (v *verifier) readJournals() error {
	var err error
	if v.journals, err = v.store.ReadJournals(); err != nil {
		return err
	}
	for _, r := range v.journals.Rings {
		v.ring(r)
		v.progress(r.Bytes)
	}
	for _, err := range v.journals.SpillErrors {
		var corrupt *segment.CorruptError
		name := ""
		if errors.As(err, &corrupt) {
			name = corrupt.File
		}
		v.stored(err, name, "", Lost, doJournal)
	}
	return nil
}

// ring judges one journal.
func (v *verifier) ring(r *Ring) {
	if r.HeadError != nil {
		v.stored(r.HeadError, r.name, "", Rebuilt, "nothing while the checkpoint beside it is whole; the next start makes the file anew")
	}
	v.report.Frames += len(r.needed)
	for _, i := range r.Verdict.Dropped {
		f := &r.Frames[r.needed[i]]
		v.report.note(r.name, "", "frame %d at byte %d lies behind the journal's end: a torn last commit, which nobody was told of", f.Sequence, f.Position)
	}
	if v.options.Live {
		return // frames are overwritten while others are read
	}
	for _, damaged := range r.Verdict.Damaged {
		d := Damage{Severity: Lost, File: r.name, What: fmt.Sprintf("frames %d to %d were flushed and are damaged or gone", damaged.From, damaged.To-1), Do: doJournal}
		for _, i := range r.needed {
			if f := &r.Frames[i]; f.Sequence >= damaged.From && f.Sequence < damaged.To && !f.Whole {
				d.Position, d.Bytes = f.Position, int64(f.Bytes)
			} else if f.Sequence == damaged.From-1 && d.Bytes == 0 {
				d.Position = f.Position + int64(f.Bytes) // where the first of them has to be
			}
		}
		v.report.damage(d)
	}
	if n := len(r.Verdict.Ahead); n > 0 {
		f := &r.Frames[r.needed[r.Verdict.Ahead[0]]]
		v.report.damage(Damage{Severity: Lost, File: r.name, Position: f.Position, Bytes: int64(f.Bytes),
			What: fmt.Sprintf("%d frames are of a later run than the checkpoint's: an older checkpoint, or another journal, was put here", n), Do: doJournal})
	}
}

// placement reads the table and looks for logs that it has and nobody else.
func (v *verifier) placement() {
	if !v.store.Placement {
		return
	}
	_, err := v.store.ReadPlacement()
	v.stored(err, segment.PlacementName, "", Rebuilt, "nothing: the next start places the logs anew")
}

// image looks for partitions of this broker that have no log, and logs that no partition has.
func (v *verifier) image() {
	image := v.options.Image
	if image == nil {
		return
	}
	there := make(map[meta.LogID]bool, len(v.store.LogIDs))
	for _, id := range v.store.LogIDs {
		there[id] = true
	}
	named := make(map[meta.LogID]bool)
	for topic := range image.Topics() {
		for i := range topic.Partitions {
			p := &topic.Partitions[i]
			if !hosts(p, v.options.NodeID) {
				continue
			}
			named[p.LogID] = true
			label := fmt.Sprintf("%s-%d", topic.Name, p.ID)
			switch {
			case there[p.LogID]:
			case p.PartitionEpoch <= partitionEpochUnmadeMax || v.options.Live:
				v.report.note(p.LogID.String(), label, "the partition has no log yet; the broker makes one when it starts")
			default:
				v.report.damage(Damage{Severity: Lost, File: p.LogID.String(), Log: label, What: "the partition had a log and its directory is gone", Do: doRestore})
			}
		}
	}
	for _, id := range v.store.LogIDs {
		switch {
		case named[id]:
		case image.Tombstoned(id):
			v.report.note(id.String(), v.label(id), "the topic is deleted; the broker removes the files")
		default:
			v.report.note(id.String(), v.label(id), "no topic knows this log; the broker keeps it and does not serve it")
		}
	}
}

func hosts(p *meta.Partition, node int32) bool {
	for _, replica := range p.Replicas {
		if replica == node {
			return true
		}
	}
	return false
}

// label is what a log's manifest calls it.
func (v *verifier) label(id meta.LogID) string {
	l, err := v.store.Log(id)
	if err != nil {
		return ""
	}
	return l.Manifest.Label
}

func (v *verifier) strangers() {
	for _, name := range v.store.Strangers {
		v.report.note(name, "", "the engine knows no such name and leaves it alone")
	}
	for _, name := range v.store.Deleted {
		v.report.note(name, "", "a deleted log, whose files are being removed")
	}
}

// snapshots reads the side state of a replica that ends at offset end.
func (v *verifier) snapshots(l *Log, names []int64, end int64) {
	for _, offset := range names {
		name := path.Join(l.ID.String(), segment.FileName(offset, segment.SnapshotSuffix))
		v.report.Snapshots++
		content, err := v.store.readFile(name)
		var snapshot *segment.Snapshot
		if err == nil {
			snapshot, err = segment.DecodeSnapshot(content)
		}
		if err == nil && snapshot.Offset != offset {
			err = &segment.CorruptError{File: name, Reason: fmt.Sprintf("it is as of offset %d", snapshot.Offset)}
		}
		if err == nil {
			if _, invalid := replica.ReadProducers(snapshot.State); invalid != nil {
				err = &segment.CorruptError{File: name, Offset: 24, Reason: invalid.Error()}
			}
		}
		if bad, gone := v.stored(err, name, l.Manifest.Label, Rebuilt, "nothing: the broker takes an older one, or replays the log"); bad && gone {
			v.report.note(name, l.Manifest.Label, "removed while this ran")
		}
		if err == nil && offset > end && end < math.MaxInt64 {
			v.report.note(name, l.Manifest.Label, "it is of an offset above the log's end %d; the next start removes it", end)
		}
	}
}
