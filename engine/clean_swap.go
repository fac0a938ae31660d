package engine

import (
	"fmt"
	"slices"

	"ringlog/engine/plan"
	"ringlog/engine/segment"
)

// swap puts the finished file of the pass in the place of its sources:
//
//	new file and index durable ─▶ manifest: new for old ─▶ old files: wait for readers, then space for coming segments, or gone
//
// One replacement of the manifest is the whole swap: a crash before finds the old files, one behind it the new, and
// removes the others. keep says that the new file must stay: the manifest names it, or may.
func (p *cleanPass) swap(sources []*segmentFile, summary segment.Summary) (keep bool, err error) {
	l, j := p.log, p.job
	if last := sources[len(sources)-1]; summary.NextOffset != last.NextOffset {
		return false, fmt.Errorf("engine: what compaction made of %s ends at offset %d, its segments at %d", l.label, summary.NextOffset, last.NextOffset)
	}
	if err := l.metaLock.lock(j); err != nil {
		return false, err
	}
	defer l.metaLock.unlock(j.shard)
	if err := p.stopped(); err != nil {
		return false, err
	}
	at := slices.Index(l.segments, sources[0])
	if at < 0 || at+len(sources) > len(l.segments) || !slices.Equal(l.segments[at:at+len(sources)], sources) {
		return false, errCleanStopped // retention was quicker
	}
	f := l.newFile(p.file.name())
	f.Summary, f.index = summary, p.file.index
	f.prepared = plan.RoundUp(summary.Bytes)
	// What it holds is durable under the old names too, so it counts as named while the
	// manifest is replaced: no frontier may fall back behind it.
	f.renamed, f.named = true, true
	l.replaceSegments(sources, []*segmentFile{f})
	if j.shard.faults.swapBeforeManifest {
		for _, old := range sources {
			if err := l.unlink(j, old.name); err != nil {
				return true, err
			}
		}
	}
	if err = l.writeManifest(j); err != nil {
		f.gone = true
		l.replaceSegments([]*segmentFile{f}, sources)
		l.leaveBehind([]*segmentFile{f})
		l.cleaning.doubtful = append(l.cleaning.doubtful, f)
		if !isShortage(err) && !isClosed(err) {
			l.fail(err)
		}
		return true, err
	}
	for _, old := range sources {
		old.gone = true
	}
	l.leaveBehind(sources)
	l.healed(f)
	j.shard.indexes.add(f)
	j.shard.counters.segmentsCleaned.Add(int64(len(sources)))
	if !j.shard.faults.swapBeforeManifest {
		l.recycleAll(slices.Clone(sources))
	}
	return true, nil
}

// replaceSegments puts segments in the place of others, neighbours of the same offsets. Rolls may have
// added to the list meanwhile, so the place is looked for.
func (l *Log) replaceSegments(old, others []*segmentFile) {
	at := slices.Index(l.segments, old[0])
	l.segments = slices.Concat(l.segments[:at], others, l.segments[at+len(old):])
}

// leaveBehind makes readers that come find the segments of the log: what is in memory of gone ones is given
// up, and who was reading them goes on by offset. Those in the middle of a read have pinned them.
func (l *Log) leaveBehind(gone []*segmentFile) {
	s := l.shard
	s.reads.cold.streams.forget(l)
	for {
		held := l.tail.held()
		if len(held) < 2 || !held[0].clean || !slices.Contains(gone, held[0].segment) {
			return
		}
		s.tail.missesUntil(held[0].cleanedAt)
		s.tail.drop(held[0])
	}
}

// healed forgets what was damaged, after the pass had read it, in the files that f replaces: all that f holds
// was checked.
func (l *Log) healed(f *segmentFile) {
	l.damages = slices.DeleteFunc(l.damages, func(d damage) bool { return d.from.offset >= f.BaseOffset && d.from.offset < f.NextOffset })
	l.noteDamages()
}

// settleDoubt removes files that the manifest names no more, or never did, once it says so.
func (p *cleanPass) settleDoubt() error {
	l, j := p.log, p.job
	if len(l.cleaning.doubtful) == 0 {
		return nil
	}
	if err := l.metaLock.lock(j); err != nil {
		return err
	}
	defer l.metaLock.unlock(j.shard)
	if err := p.stopped(); err != nil {
		return err
	}
	if err := l.writeManifest(j); err != nil {
		return err
	}
	l.recycleAll(l.cleaning.doubtful)
	l.cleaning.doubtful = nil
	return nil
}

// record notes in the manifest that the log is clean below end.
func (p *cleanPass) record(end int64) error {
	l, j := p.log, p.job
	if err := l.metaLock.lock(j); err != nil {
		return err
	}
	defer l.metaLock.unlock(j.shard)
	if err := p.stopped(); err != nil {
		return err
	}
	before := l.cleaning.cleaned
	if end <= before {
		return nil
	}
	l.cleaning.cleaned = end
	err := l.writeManifest(j)
	if err != nil {
		l.cleaning.cleaned = before
		if !isShortage(err) && !isClosed(err) {
			l.fail(err)
		}
	}
	return err
}
