package engine

import (
	"fmt"
	"slices"

	"ringlog/engine/compact"
	"ringlog/engine/segment"
	"ringlog/record"
)

// cleanPass compacts one log once (package compact decides what that means):
//
//	map keys of the dirty part ─▶ each group of segments: copy what stays ─▶ flush ─▶ swap ─▶ "cleaned"
//
// The log goes on meanwhile; what the pass reads is sealed. It holds the log's metaLock only
// while a group is swapped, and memory of the cold pool only while it looks at what it has
// read. A crash leaves each group as it was or as it became, in order: what is older is
// rid of its superseded records before what has superseded them can go.
type cleanPass struct {
	log      *Log
	job      *job
	gen      uint64
	decision compact.Decision
	epochs   []segment.Epoch
	file     cleanedFile // its memory is used again

	// What was read, and what became of it.
	segments                int
	bytesBefore, bytesAfter int64
	dropped                 int64 // records
}

// stopped says why the pass must end, or nil. It is asked after every wait.
func (p *cleanPass) stopped() error {
	if p.log.gen != p.gen {
		return errCleanStopped
	}
	return p.log.mayNotClean()
}

func (p *cleanPass) run(j *job) error {
	p.job = j
	l := p.log
	if err := p.stopped(); err != nil {
		return err
	}
	if err := p.settleDoubt(); err != nil {
		return err
	}
	d, of := l.decideClean()
	if d.Reason == compact.None {
		return errCleanStopped
	}
	p.decision, p.epochs = d, slices.Clone(l.epochs)
	segments := slices.Clone(l.segments[:len(of.Segments)])
	rules := compact.Rules{NowMillis: j.shard.nowMillis, TombstoneMillis: l.config.TombstoneMillis, End: d.From}
	if d.Reason != compact.Expired {
		m, err := p.mapKeys(segments)
		if err != nil {
			return err
		}
		rules.Keys, rules.End = m.Keys, m.End()
	}
	// Batches only leave the replica's memory, and those that enter it lie above what is
	// compacted: what is asked once is enough for the pass.
	if !j.shard.faults.forgetProducers {
		rules.Remembered = l.replica.Remembered(j.shard.nowMillis, nil)
	}
	slices.Sort(rules.Remembered)
	for chosen := of.Chosen(d, rules.End); len(chosen) > 0; {
		n, err := p.clean(of, segments, chosen, rules)
		if err != nil {
			return err
		}
		chosen = chosen[n:]
	}
	return p.record(rules.End)
}

// mapKeys reads the dirty part.
func (p *cleanPass) mapKeys(segments []*segmentFile) (*compact.Mapper, error) {
	d, s := p.decision, p.job.shard
	m := compact.NewMapper(compact.NewKeys(d.From, d.To-d.From, s.options.CleanKeyBytes/int64(len(s.engine.shards))), d.From)
	for _, f := range segments {
		if f.NextOffset <= d.From || f.BaseOffset >= d.To || m.Full() {
			continue
		}
		if err := p.read(f, &cleanReader{add: m.Add}, nil); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// clean writes the first of the chosen segments anew, with as many of those behind it as fit into one file, and
// puts that in their place, unless it would be the same. It returns how many they were.
func (p *cleanPass) clean(of compact.Log, segments []*segmentFile, chosen []int, rules compact.Rules) (n int, err error) {
	l, j := p.log, p.job
	out := &p.file
	if err := out.create(j, l, segments[chosen[0]].BaseOffset); err != nil {
		return 0, err
	}
	keep, reserved := false, int64(0)
	defer func() {
		j.shard.space.give(reserved)
		if !keep {
			out.discard(j)
		}
	}()
	c := compact.NewCopier(rules, out.base, record.DecompressedBytesMax)
	var sources []*segmentFile
	for n == 0 || n < len(chosen) && of.Joins(l.cleanPolicy(), p.decision, chosen[0], out.index.Position, chosen[n]) {
		f := segments[chosen[n]]
		if err := j.shard.space.take(j, f.Bytes); err != nil {
			return 0, err
		}
		reserved += f.Bytes
		if err := p.copy(f, c); err != nil {
			return 0, err
		}
		sources = append(sources, f)
		n++
	}
	c.Finish()
	if err := out.take(c, int64(l.config.IndexIntervalBytes)); err != nil {
		return 0, err
	}
	if c.Changed() || n > 1 { // else not a byte would be another
		if err := out.finish(j); err != nil {
			return 0, err
		}
		if keep, err = p.swap(sources, out.summary(sources, c.Horizon())); err != nil {
			return 0, err
		}
	}
	p.count(c, sources)
	return n, p.stopped()
}

// copy copies what stays of f to the new file.
func (p *cleanPass) copy(f *segmentFile, c *compact.Copier) error {
	out, interval := &p.file, int64(p.log.config.IndexIntervalBytes)
	r := &cleanReader{add: c.Add, ended: func() error { return out.take(c, interval) }}
	if err := p.read(f, r, p.write); err != nil {
		return err
	}
	if c.Next() != f.NextOffset {
		return &segment.CorruptError{File: f.path(), Offset: f.Bytes, Reason: fmt.Sprintf("the segment ends at offset %d instead of %d", c.Next(), f.NextOffset)}
	}
	return nil
}

// count adds up what became of a group.
func (p *cleanPass) count(c *compact.Copier, sources []*segmentFile) {
	p.segments += len(sources)
	for _, f := range sources {
		p.bytesBefore += f.Bytes
	}
	p.bytesAfter += p.file.index.Position
	p.dropped += c.Dropped()
	p.job.shard.counters.cleanDropped.Add(c.Dropped())
}

// write writes what is ready of the new segment, in whole blocks.
func (p *cleanPass) write() error {
	n, err := p.file.write(p.job)
	if err == nil {
		err = p.job.shard.cleaner.pace(p, n)
	}
	return err
}
