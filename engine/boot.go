package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"ringlog/engine/disk"
	"ringlog/engine/segment"
)

// Bounds of what is read before any log: a million logs each.
const (
	checkpointBytesMax = 128 << 20
	placementBytesMax  = 64 << 20
)

// boot is what is done once, on the first shard's disk, before any shard takes
// a log: the shards of the last run may have been others.
type boot struct {
	engine      *Engine
	checkpoints []bootCheckpoint // that were found, in order of their shards
	logs        []LogID          // whose directories are there, in order
	deleted     []LogID          // whose directories are to be removed
	merged      []segment.CheckpointLog
	places      map[LogID]int // in merged
	rings       []int         // shards whose journals were found, in order
	spills      []LogID       // logs with entries that were put aside
	reserves    map[int]int64 // bytes of those that were found, by their shards
	stored      []storedCheckpoint

	// What the journals of this run begin with.
	store    [16]byte
	runNow   uint64
	sequence uint64

	shares [][]segment.CheckpointLog // what each shard begins with
}

// bootCheckpoint is one checkpoint of the last run.
type bootCheckpoint struct {
	shard   int
	content segment.Checkpoint // empty when it is damaged
	damaged bool
}

// storedCheckpoint is the checkpoint of a shard as this start wrote it.
type storedCheckpoint struct {
	file  pair
	bytes int64
}

// hasCheckpoint says whether the last run left a checkpoint of the shard.
func (b *boot) hasCheckpoint(shard int) bool {
	return slices.ContainsFunc(b.checkpoints, func(c bootCheckpoint) bool { return c.shard == shard })
}

// run does everything in order. It can be begun again at any point.
func (b *boot) run(j *job) error {
	if err := b.list(j); err != nil {
		return err
	}
	for i := range b.checkpoints {
		if err := b.read(j, &b.checkpoints[i]); err != nil {
			return err
		}
	}
	b.merge()
	m := merging{shard: j.shard, boot: b}
	if err := m.run(j); err != nil {
		return err
	}
	if err := b.place(j); err != nil {
		return err
	}
	if err := b.distribute(j); err != nil {
		return err
	}
	if err := m.removeSpills(j); err != nil {
		return err
	}
	if err := b.removeGone(j); err != nil {
		return err
	}
	for _, id := range b.deleted {
		j.shard.keeper.remove(j.shard, id, 0)
	}
	b.engine.registry.setUnknown(b.logs)
	return nil
}

// list sorts what the data directory holds.
func (b *boot) list(j *job) error {
	b.reserves = make(map[int]int64)
	j.one = disk.Operation{Kind: disk.ReadDirectory, Path: "."}
	if err := j.do(&j.one); err != nil {
		return fmt.Errorf("engine: list the data directory: %w", err)
	}
	for _, entry := range j.one.Entries {
		if !entry.Directory {
			b.listFile(entry)
			continue
		}
		if name, ok := strings.CutSuffix(entry.Name, deletedSuffix); ok {
			if id, ok := parseLogID(name); ok {
				b.deleted = append(b.deleted, id)
			}
			continue
		}
		if id, ok := parseLogID(entry.Name); ok {
			b.logs = append(b.logs, id)
		}
	}
	slices.SortFunc(b.checkpoints, func(a, b bootCheckpoint) int { return a.shard - b.shard })
	if err := b.syncNames(j); err != nil {
		return fmt.Errorf("engine: sync the data directory: %w", err)
	}
	slices.Sort(b.rings)
	j.shard.reserve.bytes = b.reserves[j.shard.number] // it may be needed now
	return nil
}

// syncNames makes the names that are found durable: after a kill they may be in
// memory only. One operation does it for the directories of all logs.
func (b *boot) syncNames(j *job) error {
	if j.shard.faults.trustNames {
		b.engine.namesDurable = true
		return nil
	}
	if len(b.checkpoints) == 0 {
		return j.simple(disk.SyncDirectory, ".") // each log does it for itself
	}
	file, _, err := j.open(segment.CheckpointName(b.checkpoints[0].shard), 0)
	if err != nil {
		return err
	}
	j.one = disk.Operation{Kind: disk.SyncFilesystem, File: file}
	err = j.do(&j.one)
	if closeErr := j.close(file); err == nil {
		err = closeErr
	}
	b.engine.namesDurable = err == nil
	return err
}

func (b *boot) listFile(entry disk.Entry) {
	if id, ok := isSpill(entry.Name); ok {
		b.spills = append(b.spills, id)
	}
	switch shard, kind, ok := segment.ParseShardName(entry.Name); {
	case !ok:
	case kind == segment.CheckpointKind:
		b.checkpoints = append(b.checkpoints, bootCheckpoint{shard: shard})
	case kind == segment.JournalKind:
		b.rings = append(b.rings, shard)
	case kind == segment.ReserveKind:
		b.reserves[shard] = entry.Bytes
	}
}

// read reads a checkpoint. A damaged one is as good as none, but for the proof
// of how much was durable; a newer one is refused.
func (b *boot) read(j *job, c *bootCheckpoint) error {
	name := segment.CheckpointName(c.shard)
	content, err := j.readFile(name, checkpointBytesMax)
	var p *segment.Checkpoint
	if err == nil {
		p, err = segment.DecodeCheckpoint(content)
	}
	switch {
	case err == nil:
		c.content = *p
		return nil
	case errors.Is(err, ErrCorrupt):
		j.shard.logger.Error("the recovery checkpoint is damaged: every log of its shard is scanned without it", "file", name, "error", err)
		c.damaged = true
		return nil
	}
	return err
}

// merge takes the last word of all checkpoints on each log. A log that was moved, or whose
// shard is gone, may be in several.
func (b *boot) merge() {
	b.places = make(map[LogID]int)
	for i := range b.checkpoints {
		for _, entry := range b.checkpoints[i].content.Logs {
			at, known := b.places[entry.LogID]
			switch {
			case !known:
				b.places[entry.LogID] = len(b.merged)
				b.merged = append(b.merged, entry)
			case supersedes(&entry, &b.merged[at]):
				b.merged[at] = entry
			}
		}
	}
}

// supersedes says whether a was written after b: of one generation the durable end
// only rises. Of two with the same end the one that allows more is the safe one.
func supersedes(a, b *segment.CheckpointLog) bool {
	switch {
	case a.Gen != b.Gen:
		return a.Gen > b.Gen
	case a.Durable != b.Durable:
		return a.Durable > b.Durable
	}
	return a.Limit > b.Limit
}

// place reads the placement table and gives a shard to every log that it does not
// know, or knows on a shard that is gone.
func (b *boot) place(j *job) error {
	p := &b.engine.placement
	if len(b.engine.shards) == 1 {
		return nil
	}
	stored, err := b.readPlacement(j)
	if err != nil {
		return err
	}
	for _, id := range b.logs {
		if shard, ok := stored[id]; ok && shard < len(b.engine.shards) {
			p.put(id, shard)
		}
	}
	changed := len(b.logs) != len(stored)
	for _, id := range b.logs {
		_, fresh := p.place(id)
		changed = changed || fresh
	}
	if !changed {
		p.durable = p.mu.version
		return nil
	}
	if err := p.save(j); err != nil {
		if isClosed(err) {
			return err
		}
		j.shard.logger.Error("the placement table cannot be written: the next start may place logs elsewhere", "error", err)
	}
	return nil
}

// readPlacement reads the table of the last run. Without one nothing is lost: the logs are
// dealt anew.
func (b *boot) readPlacement(j *job) (map[LogID]int, error) {
	content, err := j.readFile(segment.PlacementName, placementBytesMax)
	file := &b.engine.placement.file
	file.there, file.bytes = err == nil, int64(len(content))
	if errors.Is(err, fs.ErrNotExist) {
		if len(b.logs) > 0 {
			j.shard.logger.Warn("there is no placement table: logs are placed anew, which costs nothing else", "logs", len(b.logs))
		}
		return nil, nil
	}
	var table *segment.Placement
	if err == nil {
		table, err = segment.DecodePlacement(content)
	}
	switch {
	case err == nil:
	case isClosed(err) || errors.Is(err, ErrNewerFormat):
		return nil, err
	default: // damaged, or the disk does not give it
		j.shard.logger.Warn("the placement table cannot be read: logs are placed anew, which costs nothing else", "logs", len(b.logs), "error", err)
		return nil, nil
	}
	stored := make(map[LogID]int, len(table.Logs))
	for _, placed := range table.Logs {
		stored[placed.LogID] = placed.Shard
	}
	return stored, nil
}

// distribute gives each shard what the checkpoints and journals say of its logs, and
// writes that down with the run that begins now: from then on no frame in a ring
// counts (rule 5), and those of shards that are gone may go.
func (b *boot) distribute(j *job) error {
	b.shares = make([][]segment.CheckpointLog, len(b.engine.shards))
	for _, entry := range b.merged {
		shard, _ := b.engine.placement.of(entry.LogID) // one without a directory: anybody's
		b.shares[shard] = append(b.shares[shard], entry)
	}
	for n, share := range b.shares {
		p := segment.Checkpoint{Store: b.store, Run: b.runNow, From: b.sequence, Flushed: b.sequence - 1, Logs: share}
		name := segment.CheckpointName(n)
		content := p.Encode()
		file := pair{directory: ".", name: name, there: b.hasCheckpoint(n)}
		err := j.shard.reserve.replace(j, &file, content)
		if isFull(err) {
			return fmt.Errorf("engine: write %s: the disk is full: free %d bytes in the data directory: %w", name, roundUp(int64(len(content))), err)
		}
		if err != nil {
			return fmt.Errorf("engine: write %s: %w", name, err)
		}
		b.stored = append(b.stored, storedCheckpoint{file: file, bytes: int64(len(content))})
	}
	if err := j.simple(disk.SyncDirectory, "."); err != nil {
		return fmt.Errorf("engine: sync the data directory: %w", err)
	}
	for i := range b.stored {
		b.stored[i].file.synced(nil)
	}
	return nil
}

// removeGone removes the files of shards that there are no more, and rings that
// nobody asked for. REQUIRES: distribute.
func (b *boot) removeGone(j *job) error {
	var names []string
	for i := range b.checkpoints {
		if n := b.checkpoints[i].shard; n >= len(b.shares) {
			names = append(names, segment.CheckpointName(n))
		}
	}
	for _, n := range b.rings {
		if n >= len(b.shares) || b.engine.options.JournalBytes == 0 {
			names = append(names, segment.JournalName(n))
		}
	}
	for n := range b.reserves {
		if n >= len(b.shares) {
			names = append(names, segment.ReserveName(n))
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if err := j.simple(disk.Unlink, name); err != nil {
			return fmt.Errorf("engine: remove %s: %w", name, err)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return j.simple(disk.SyncDirectory, ".")
}
