package crashtest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"ringlog/engine"
	"ringlog/engine/disk"
	"ringlog/engine/disk/crash"
	"ringlog/record"
)

// rot closes l in order, so that a checkpoint vouches for everything, and then
// flips bits: at rest in any file, or in what a read returns. A flipped bit may
// cost an error; it must not be served, and no log may shrink in silence.
func (x *explorer) rot(l *life) error {
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
	if err := l.stepper.Close(context.Background()); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	for range x.config.Rot {
		x.result.Points++
		marked := len(x.trace)
		d := l.disk.Kill(x.draw())
		next := x.newLife(d, l.expectations(), 1, true)
		next.clock, next.wall = l.clock, l.wall
		inReads := x.dice.IntN(4) == 0
		if !inReads {
			if err := next.spoil(); err != nil {
				return err
			}
		}
		err := next.lookAtRot(inReads, epochs)
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

// spoil flips one bit at rest.
func (l *life) spoil() error {
	var files []string
	for _, name := range l.disk.List() {
		if !strings.HasSuffix(name, "/") {
			files = append(files, name)
		}
	}
	name := files[l.dice.IntN(len(files))]
	content, err := l.disk.ReadFile(name)
	if err != nil || len(content) == 0 {
		return err
	}
	used := len(content) // prepared space behind the last byte is not interesting
	for used > 1 && content[used-1] == 0 {
		used--
	}
	offset, mask := l.dice.Int64N(int64(used)), byte(1)<<l.dice.IntN(8)
	l.x.note(l, "flip %#x at %d of %s", mask, offset, name)
	return l.disk.Corrupt(name, offset, mask)
}

func (l *life) lookAtRot(inReads bool, epochs map[*submission]int32) error {
	if err := l.start(); err != nil {
		return fmt.Errorf("start on a rotten disk: %w", err)
	}
	for _, g := range l.logs {
		if g.created != done || g.deleted != never {
			continue
		}
		if err := l.lookAtRotten(g, inReads, epochs); err != nil {
			return fmt.Errorf("%s on a rotten disk: %w", g.label, err)
		}
	}
	return nil
}

// lookAtRotten opens one log and reads as far as it goes.
func (l *life) lookAtRotten(g *logLife, inReads bool, epochs map[*submission]int32) error {
	ctx := context.Background()
	log, err := l.stepper.Open(ctx, l.spec(g))
	if err != nil {
		return onlyCorrupt(err) // refused as a whole
	}
	status, err := l.stepper.Status(ctx, g.id)
	if err != nil {
		return err
	}
	if status.Err != nil {
		if err := onlyCorrupt(status.Err); err != nil {
			return err
		}
	} else if f := log.Frontiers(); f.HighWatermark < g.mustKill {
		return fmt.Errorf("it ends at %d and says nothing: [%d, %d) was promised to survive", f.HighWatermark, f.HighWatermark, g.mustKill)
	}
	if inReads {
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
		if epoch := batch.LeaderEpoch(); epoch != epochs[b] {
			return fmt.Errorf("batch %d is served under leader epoch %d, and was appended under %d", b.number, epoch, epochs[b])
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
