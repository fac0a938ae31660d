package compact

import (
	"fmt"
	"math"
	"slices"

	"ringlog/record"
)

// Rules are what decides, in one pass, about what is copied.
type Rules struct {
	// Keys has the newest record of each key of the part that was dirty; nil when only
	// tombstones are to go.
	Keys *Keys
	// End: what lies at and above it stays as it is.
	End int64
	// NowMillis is the broker's clock when the pass began.
	NowMillis int64
	// TombstoneMillis is delete.retention.ms: for how long a tombstone stays after the pass that
	// was the first to keep it.
	TombstoneMillis int64
	// Remembered are the base offsets, ascending, of the batches that a producer's retry
	// would be answered from: they keep their sequence numbers, even without records.
	Remembered []int64
}

// Stats is what a Copier has done.
type Stats struct {
	Records    int64 // that were read
	Superseded int64 // dropped: there is a newer one of the key
	Tombstones int64 // dropped: their time is up
	Keyless    int64 // dropped: without a key there is no newest one (they are older than the policy)
	Batches    int64 // that were read
	Emptied    int64 // batches that lost all records
}

// Dropped is how many records are gone.
func (s *Stats) Dropped() int64 { return s.Superseded + s.Tombstones + s.Keyless }

// Copier copies the batches of one group of segments, in order, and leaves out what compaction
// drops. What it puts out covers the same offsets, without a hole, under the same leader epochs.
type Copier struct {
	Stats
	rules   Rules
	reader  record.Reader
	builder record.Builder
	headers []record.Header
	keep    []bool // of the records of one batch

	out     []byte // whole batches
	lastAt  int    // where the last one begins in out; it may be extended yet
	lastEnd int64  // the offset behind what it is to cover
	lastMay bool   // it may be extended
	next    int64  // where what was read ends
	horizon int64
	changed bool
}

// NewCopier returns a copier for batches from offset next on. limit bounds what a batch may be decompressed to.
func NewCopier(rules Rules, next, limit int64) *Copier {
	c := &Copier{rules: rules, next: next, lastEnd: next, horizon: NoHorizon}
	c.reader.DecompressedBytesMax = limit
	return c
}

// Next is the offset behind the last batch that was added.
func (c *Copier) Next() int64 { return c.next }

// Horizon is when the first of the tombstones that were kept may go; NoHorizon for never.
func (c *Copier) Horizon() int64 { return c.horizon }

// Changed says that what comes out is not what went in.
func (c *Copier) Changed() bool { return c.changed }

// Ready returns the batches that will not change any more; they are valid until Drained or Add.
func (c *Copier) Ready() []byte { return c.out[:c.lastAt] }

// Drained drops what Ready returned.
func (c *Copier) Drained() {
	n := copy(c.out, c.out[c.lastAt:])
	c.out, c.lastAt = c.out[:n], 0
}

// Finish makes all that was added Ready.
func (c *Copier) Finish() {
	c.seal()
	c.lastAt = len(c.out)
}

// Add takes the next batch, one whose checksum was verified. The error is of one that does not
// follow, or of records that cannot be read.
func (c *Copier) Add(batch record.Batch) error {
	if batch.BaseOffset() != c.next {
		return fmt.Errorf("the batch at offset %d follows one that ends at %d", batch.BaseOffset(), c.next)
	}
	c.next = batch.LastOffset() + 1
	c.Batches++
	if batch.Control() || batch.BaseOffset() >= c.rules.End {
		c.copy(batch)
		return nil
	}
	if batch.RecordCount() == 0 {
		c.cover(batch)
		return nil
	}
	kept, tombstones, err := c.choose(batch)
	if err == nil {
		err = c.put(batch, kept, tombstones)
	}
	if err != nil {
		return fmt.Errorf("the batch at offset %d: %w", batch.BaseOffset(), err)
	}
	return nil
}

// choose decides which records of the batch stay.
func (c *Copier) choose(batch record.Batch) (kept, tombstones int, err error) {
	horizon, has := batch.DeleteHorizon()
	expired := has && horizon <= c.rules.NowMillis
	c.keep = c.keep[:0]
	c.reader.Reset(batch)
	defer c.reader.Close()
	for c.reader.Next() {
		r := c.reader.Record()
		c.Records++
		stays := r.Offset >= c.rules.End || c.stays(r, expired)
		if stays {
			kept++
			if r.Value == nil && r.Key != nil {
				tombstones++
			}
		}
		c.keep = append(c.keep, stays)
	}
	return kept, tombstones, c.reader.Err()
}

func (c *Copier) stays(r *record.Record, expired bool) bool {
	if r.Key == nil {
		c.Keyless++
		return false
	}
	if c.rules.Keys != nil {
		if newest, ok := c.rules.Keys.Newest(HashOf(r.Key)); ok && r.Offset < newest {
			c.Superseded++
			return false
		}
	}
	if r.Value == nil && expired {
		c.Tombstones++
		return false
	}
	return true
}

// put puts out what is left of the batch.
func (c *Copier) put(batch record.Batch, kept, tombstones int) error {
	horizon, has := batch.DeleteHorizon()
	if !has {
		horizon = 0
	}
	// A batch that the map does not cover whole waits: tombstones in it may hide records
	// that the next pass drops.
	sets := tombstones > 0 && !has && batch.LastOffset() < c.rules.End
	switch {
	case kept == 0:
		c.Emptied++
		c.changed = true
		c.cover(batch)
		return nil
	case kept == len(c.keep) && !sets:
		c.copy(batch)
		return nil
	case sets:
		horizon = after(c.rules.NowMillis, c.rules.TombstoneMillis)
	case tombstones == 0:
		horizon = 0 // there is nothing left that it is about
	}
	built, err := c.rebuild(batch, horizon)
	if err != nil {
		return err
	}
	c.changed = true
	c.begin(built, c.mayExtend(batch))
	return nil
}

// after is a moment so much later, at most the last one.
func after(millis, delta int64) int64 {
	if delta > math.MaxInt64-millis {
		return math.MaxInt64
	}
	return max(millis+delta, 1) // 0 is none
}

// rebuild makes a batch of the records that stay: the same offsets, timestamps, producer, epoch and
// codec. horizon is 0 for none.
func (c *Copier) rebuild(batch record.Batch, horizon int64) (record.Batch, error) {
	options := headerOf(batch)
	options.Codec, options.DeleteHorizonMillis = batch.Codec(), horizon
	if batch.LogAppendTime() {
		options.LogAppendTimeMillis = batch.MaxTimestamp()
	}
	c.builder.Reset(options)
	c.reader.Reset(batch)
	defer c.reader.Close()
	for i := 0; c.reader.Next(); i++ {
		if !c.keep[i] {
			continue
		}
		r := c.reader.Record()
		c.headers = c.headers[:0]
		for h := r.Headers(); ; {
			header, more := h.Next()
			if !more {
				break
			}
			c.headers = append(c.headers, header)
		}
		c.builder.AppendAt(r.OffsetDelta, r.Timestamp, r.Key, r.Value, c.headers...)
	}
	if err := c.reader.Err(); err != nil {
		return nil, err
	}
	c.builder.SetLastOffsetDelta(batch.LastOffsetDelta())
	return c.builder.Build()
}

// headerOf is what a batch keeps whatever happens to its records.
func headerOf(batch record.Batch) record.BuilderOptions {
	return record.BuilderOptions{
		BaseOffset: batch.BaseOffset(), LeaderEpoch: batch.LeaderEpoch(),
		Idempotent: batch.HasProducerID(), ProducerID: batch.ProducerID(), ProducerEpoch: batch.ProducerEpoch(), BaseSequence: batch.BaseSequence(),
		Transactional: batch.Transactional(),
	}
}

// copy puts out the batch as it is.
func (c *Copier) copy(batch record.Batch) { c.begin(batch, c.mayExtend(batch)) }

// cover puts out what stands for the offsets of a batch without records: nothing, when the batch before
// can be extended, or a batch without records, which keeps the producer's sequence numbers when they count.
func (c *Copier) cover(batch record.Batch) {
	remembered := batch.HasProducerID() && c.remembered(batch)
	if !remembered && c.lastMay && record.Batch(c.out[c.lastAt:]).LeaderEpoch() == batch.LeaderEpoch() {
		c.lastEnd = batch.LastOffset() + 1
		c.changed = true
		return
	}
	if batch.RecordCount() == 0 && (remembered || !batch.HasProducerID()) {
		c.copy(batch)
		return
	}
	c.changed = true
	options := headerOf(batch)
	if !remembered {
		options = record.BuilderOptions{BaseOffset: batch.BaseOffset(), LeaderEpoch: batch.LeaderEpoch()}
	}
	c.builder.Reset(options)
	c.builder.SetLastOffsetDelta(batch.LastOffsetDelta())
	built, err := c.builder.Build()
	if err != nil {
		panic("compact: a batch without records: " + err.Error()) // only a compressor fails
	}
	c.begin(built, !remembered)
}

// begin puts out a batch, which becomes the last one.
func (c *Copier) begin(batch record.Batch, may bool) {
	c.seal()
	c.lastAt = len(c.out)
	c.out = append(c.out, batch...)
	c.lastEnd, c.lastMay = batch.LastOffset()+1, may
	// One that has passed and is still there is of tombstones that this pass could not judge.
	if horizon, ok := batch.DeleteHorizon(); ok && horizon > c.rules.NowMillis && (c.horizon == NoHorizon || horizon < c.horizon) {
		c.horizon = horizon
	}
}

// seal gives the last batch the offsets that it is to cover.
func (c *Copier) seal() {
	if c.lastAt == len(c.out) {
		return
	}
	last := record.Batch(c.out[c.lastAt:])
	if delta := c.lastEnd - 1 - last.BaseOffset(); delta > int64(last.LastOffsetDelta()) {
		last.Extend(int32(delta))
	}
	c.lastMay = false
}

// mayExtend says whether a batch can cover offsets of those behind it: nobody counts its
// sequence numbers, nor does a transaction know it by its producer.
func (c *Copier) mayExtend(batch record.Batch) bool {
	return !batch.Control() && !batch.Transactional() && !(batch.HasProducerID() && c.remembered(batch))
}

func (c *Copier) remembered(batch record.Batch) bool {
	_, found := slices.BinarySearch(c.rules.Remembered, batch.BaseOffset())
	return found
}
