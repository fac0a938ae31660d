package engine

import (
	"fmt"
	"slices"

	"ringlog/engine/segment"
)

// lead makes the replica leader under epoch (rule 11).
func (l *Log) lead(epoch int32) error {
	if err := l.usable(); err != nil {
		return err
	}
	if last := l.lastEpoch(); epoch < last || epoch < l.epochLead {
		return fmt.Errorf("engine: %s cannot be led under epoch %d: it has batches of epoch %d and was led under %d", l.label, epoch, last, l.epochLead)
	}
	l.epochLead = epoch
	l.step(Event{Kind: EventLead, Epoch: epoch})
	return nil
}

// lastEpoch is the epoch of the last batch, -1 when there is none.
func (l *Log) lastEpoch() int32 {
	if n := len(l.epochs); n > 0 {
		return l.epochs[n-1].Epoch
	}
	return -1
}

// enterEpoch notes the epoch of the batch that is about to be appended.
func (l *Log) enterEpoch(epoch int32) {
	last := l.lastEpoch()
	if epoch == last {
		return
	}
	if epoch < last || epoch > l.epochLead {
		panic(fmt.Sprintf("engine: the replica of %s appends under epoch %d after %d, granted %d", l.label, epoch, last, l.epochLead))
	}
	l.epochs = append(l.epochs, segment.Epoch{Epoch: epoch, Start: l.next.offset})
}

// noteEpoch takes the epoch of a batch that recovery found.
func (l *Log) noteEpoch(epoch int32, baseOffset int64) {
	if epoch > l.lastEpoch() {
		l.epochs = append(l.epochs, segment.Epoch{Epoch: epoch, Start: baseOffset})
	}
}

// takeEpochs takes the epochs of a manifest that began below offset, behind
// those that are known.
func (l *Log) takeEpochs(epochs []segment.Epoch, offset int64) {
	for _, e := range epochs {
		if e.Start < offset && e.Epoch > l.lastEpoch() {
			l.epochs = append(l.epochs, e)
		}
	}
}

// cutEpochs forgets the epochs that began at or above offset.
func (l *Log) cutEpochs(offset int64) {
	n := len(l.epochs)
	for n > 0 && l.epochs[n-1].Start >= offset {
		n--
	}
	l.epochs = l.epochs[:n]
}

// pruneEpochs forgets the epochs that end at or below the start offset.
func (l *Log) pruneEpochs() {
	n := 0
	for n+1 < len(l.epochs) && l.epochs[n+1].Start <= l.start {
		n++
	}
	if n > 0 {
		l.epochs = append([]segment.Epoch(nil), l.epochs[n:]...)
	}
}

// epochEnd returns the largest epoch at or below epoch that the log has batches of,
// and where it ends; -1, -1 when there is none (OffsetForLeaderEpoch, KIP-101, KIP-279).
func (l *Log) epochEnd(epoch int32) (largest int32, end int64) {
	for i := len(l.epochs) - 1; i >= 0; i-- {
		if l.epochs[i].Epoch > epoch {
			continue
		}
		if i+1 < len(l.epochs) {
			return l.epochs[i].Epoch, l.epochs[i+1].Start
		}
		return l.epochs[i].Epoch, l.next.offset
	}
	return -1, -1
}

// configure replaces the configuration.
func (l *Log) configure(config LogConfig) {
	was := l.config
	l.config, l.space.lookAt = config.withDefaults(), 0
	if l.config.Compact {
		l.shard.cleaner.arm()
	}
	if l.failed != nil || was.relaxed() == l.config.relaxed() {
		return
	}
	if l.config.relaxed() {
		l.shard.logger.Warn("flush.messages above 1: acknowledged batches of this log survive a crash of the process, not of the machine",
			"log", l.label, "flush.messages", l.config.FlushMessages, "flush.ms", l.config.FlushMillis)
	}
	l.step(Event{Kind: EventConfigured, Relaxed: l.config.relaxed()})
}

// status describes the log.
func (l *Log) status() LogStatus {
	status := LogStatus{
		ID: l.id, Label: l.label, Frontiers: l.frontiers(), Epoch: l.lastEpoch(), Err: l.failed,
		Cleaned: l.cleaning.cleaned, Uncleanable: l.cleaning.failed,
	}
	if status.Err == nil && len(l.damages) > 0 {
		status.Err = l.damages[0].err
	}
	for _, f := range l.segments {
		summary := SegmentStatus{BaseOffset: f.BaseOffset, NextOffset: f.NextOffset, Bytes: f.Bytes, MaxTimestamp: f.MaxTimestamp, Pass: f.Pass}
		if f == l.active && f.index != nil {
			summary.MaxTimestamp = f.index.MaxTimestamp
		}
		status.Bytes += f.Bytes
		status.Segments = append(status.Segments, summary)
	}
	return status
}

// epochsBelow is the offset below which the manifest has every epoch.
func (l *Log) epochsBelow() int64 {
	for _, e := range l.epochs {
		if !slices.Contains(l.side.epochsSaved, e) {
			return min(e.Start, l.durable)
		}
	}
	return l.durable
}
