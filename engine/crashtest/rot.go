package crashtest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"ringlog/engine"
	"ringlog/engine/disk"
	"ringlog/engine/disk/crash"
	"ringlog/engine/journal"
	"ringlog/engine/segment"
	"ringlog/record"
)

// rot closes l in order, so that a checkpoint vouches for everything, and then
// flips bits: at rest in any file, or in what a read returns. A flipped bit may
// cost an error; it must not be served, and no log may shrink in silence, but as
// far as excuse goes.
func (x *explorer) rot(l *life) error {
	inRing := x.config.RotRing && l.journalBytes > 0
	if inRing {
		if err := l.fillRing(); err != nil {
			return err
		}
	}
	epochs := make(map[*submission]int32)
	for _, g := range l.logs {
		if g.log == nil {
			continue
		}
		if _, err := l.read(g.log, g.log.Frontiers().Start, func(batch record.Batch, b *submission) error {
			epochs[b] = batch.LeaderEpoch()
			return nil
		}); err != nil {
			return err
		}
	}
	if !inRing {
		if err := l.stepper.Close(context.Background()); err != nil {
			return fmt.Errorf("close: %w", err)
		}
	}
	for range x.config.Rot {
		x.result.Points++
		marked := len(x.trace)
		d, killed := l.disk.Kill(x.draw()), true
		if inRing && x.dice.IntN(2) == 0 {
			d, killed = l.disk.Crash(x.draw()), false
		}
		next := x.newLife(d, l.expectations(), 1, killed)
		next.clock, next.wall = l.clock, l.wall
		look := rotten{inReads: x.dice.IntN(4) == 0, epochs: epochs}
		if !look.inReads {
			var err error
			if look.excused, err = next.spoil(); err != nil {
				return err
			}
		}
		err := next.lookAtRot(&look)
		if endErr := next.end(); err == nil {
			err = endErr
		}
		if err != nil || x.failure != nil {
			return err
		}
		x.trace = x.trace[:marked]
	}
	return nil
}

// rotten is what is known of a disk with a flipped bit.
type rotten struct {
	inReads bool // it is flipped in what reads return, once the logs are open
	epochs  map[*submission]int32
	excused map[engine.LogID]int64 // where a log may end that says nothing
}

// fillRing has everything that was appended vouched for by a checkpoint, and then
// appends what only the journal holds: each append by itself, or several in a commit.
func (l *life) fillRing() error {
	if err := l.settle(); err != nil {
		return err
	}
	l.clock += checkpointInterval
	if err := l.turns(1); err != nil {
		return err
	}
	if err := l.settle(); err != nil {
		return err
	}
	for range 4 + l.dice.IntN(12) {
		g := l.pick()
		if g == nil {
			return nil
		}
		l.produce(g, l.dice.IntN(3), 1, l.dice.IntN(1500))
		if err := l.turns(l.dice.IntN(3)); err != nil {
			return err
		}
		if l.dice.IntN(3) > 0 {
			if err := l.settle(); err != nil {
				return err
			}
		}
	}
	return l.settle()
}

// excuse says which logs may lose something in silence when a bit flips at offset of
// a ring, and from where on. It is what assumption 4 of docs/durability.md comes to:
//
//   - A frame that some other frame or the checkpoint calls flushed has a witness.
//     Whatever happens to it is noticed: nothing is excused.
//   - A frame has no witness when no other was built since its flush returned: it is of
//     the last commit before the crash, or of the one before, or not flushed at all. When it
//     is not whole it cannot be told from one that was torn, and where it lies the
//     journal ends: it and the frames behind it, which have no witness either.
//
// Nothing else is excused: no bit of a segment that a checkpoint or a later entry
// vouches for, none of the checkpoint, none of the ring's head.
func (l *life) excuse(name string, offset int64) (map[engine.LogID]int64, error) {
	shard, kind, ok := segment.ParseShardName(name)
	if !ok || kind != segment.JournalKind || offset < segment.RingHeadBytes {
		return nil, nil
	}
	content, err := l.disk.ReadFile(segment.CheckpointName(shard))
	if err != nil {
		return nil, err
	}
	checkpoint, err := segment.DecodeCheckpoint(content)
	if err != nil {
		return nil, err
	}
	ring, err := l.disk.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var hit uint64
	witnessed := checkpoint.Flushed
	var frames []journal.Frame
	for at := segment.RingHeadBytes; at < len(ring); {
		f, err := journal.Parse(ring[at:], checkpoint.Store)
		if err != nil || f.Run != checkpoint.Run {
			at += max(f.Bytes(), journal.BlockBytes)
			continue
		}
		if int(offset) >= at && int(offset) < at+f.Bytes() {
			hit = f.Sequence
		} else {
			witnessed = max(witnessed, f.Flushed)
		}
		frames = append(frames, f)
		at += f.Bytes()
	}
	if hit <= witnessed {
		return nil, nil
	}
	excused := make(map[engine.LogID]int64)
	for i := range frames {
		for k := range frames[i].Len() {
			e, _, _ := frames[i].At(k)
			id := engine.LogID(e.LogID)
			if end, ok := excused[id]; frames[i].Sequence >= hit && (!ok || e.FirstOffset < end) {
				excused[id] = e.FirstOffset
			}
		}
	}
	return excused, nil
}

// inFrame returns an offset in the header or the batches of the first frame at or behind
// an offset of a ring: there is less of that than of everything else.
func (l *life) inFrame(ring []byte, offset int64) int64 {
	at := max(offset&^(disk.BlockBytes-1), segment.RingHeadBytes)
	for ; at+disk.BlockBytes <= int64(len(ring)); at += disk.BlockBytes {
		if string(ring[at:at+4]) == "RLjf" {
			return at + l.dice.Int64N(256)
		}
	}
	return offset
}

// spoil flips one bit at rest, and returns what that excuses.
func (l *life) spoil() (map[engine.LogID]int64, error) {
	var files []string
	for _, name := range l.disk.List() {
		if !strings.HasSuffix(name, "/") {
			files = append(files, name)
		}
		if l.x.config.RotRing && strings.HasSuffix(name, ".journal") {
			files = append(files, name, name, name, name)
		}
	}
	name := files[l.dice.IntN(len(files))]
	content, err := l.disk.ReadFile(name)
	if err != nil || len(content) == 0 {
		return nil, err
	}
	used := len(content) // prepared space behind the last byte is not interesting
	for used > 1 && content[used-1] == 0 {
		used--
	}
	offset, mask := l.dice.Int64N(int64(used)), byte(1)<<l.dice.IntN(8)
	if l.x.config.RotRing && strings.HasSuffix(name, ".journal") && l.dice.IntN(3) > 0 {
		offset = l.inFrame(content, offset)
	}
	l.x.note(l, "flip %#x at %d of %s", mask, offset, name)
	excused, err := l.excuse(name, offset)
	if err != nil {
		return nil, err
	}
	return excused, l.disk.Corrupt(name, offset, mask)
}

func (l *life) lookAtRot(look *rotten) error {
	if err := l.start(); err != nil {
		return fmt.Errorf("start on a rotten disk: %w", err)
	}
	for _, g := range l.logs {
		if g.created != done || g.deleted != never {
			continue
		}
		if err := l.lookAtRotten(g, look); err != nil {
			return fmt.Errorf("%s on a rotten disk: %w", g.label, err)
		}
	}
	return nil
}

// lookAtRotten opens one log and reads as far as it goes.
func (l *life) lookAtRotten(g *logLife, look *rotten) error {
	ctx := context.Background()
	log, err := l.stepper.Open(ctx, l.spec(g))
	if err != nil {
		return onlyCorrupt(err) // refused as a whole
	}
	status, err := l.stepper.Status(ctx, g.id)
	if err != nil {
		return err
	}
	promised := g.must
	if l.killed {
		promised = g.mustKill
	}
	if end, ok := look.excused[g.id]; ok {
		promised = min(promised, end)
	}
	if status.Err != nil {
		if err := onlyCorrupt(status.Err); err != nil {
			return err
		}
	} else if f := log.Frontiers(); f.HighWatermark < promised {
		return fmt.Errorf("it ends at %d and says nothing: [%d, %d) was promised to survive", f.HighWatermark, f.HighWatermark, promised)
	}
	if look.inReads {
		l.disk.AddFault(crash.Fault{Kind: disk.Read, Effect: crash.FlipBit, Probability: 0.3})
	}
	known := make(map[int64]*submission, len(g.placed))
	for _, p := range g.placed {
		known[p.base] = p.batch
	}
	at := log.Frontiers().Start
	end, err := l.read(log, at, func(batch record.Batch, b *submission) error {
		if b != known[batch.BaseOffset()] {
			return fmt.Errorf("batch %d is served at %d, where it is not", b.number, batch.BaseOffset())
		}
		if epoch := batch.LeaderEpoch(); epoch != look.epochs[b] {
			return fmt.Errorf("batch %d is served under leader epoch %d, and was appended under %d", b.number, epoch, look.epochs[b])
		}
		return nil
	})
	switch {
	case err != nil:
		return onlyCorrupt(err)
	case end != log.Frontiers().HighWatermark:
		return fmt.Errorf("it can be read up to %d of %d, without an error", end, log.Frontiers().HighWatermark)
	}
	return nil
}

// onlyCorrupt passes over errors that say that stored data is damaged.
func onlyCorrupt(err error) error {
	if errors.Is(err, engine.ErrCorrupt) || errors.Is(err, engine.ErrNewerFormat) {
		return nil
	}
	return err
}
