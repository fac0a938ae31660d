package replica

import (
	"fmt"
	"time"

	"ringlog/engine"
	"ringlog/record"
)

// Options shape a Partition; the zero value is the default.
type Options struct {
	// ProducersMax bounds the producer ids that are remembered; 0 is
	// DefaultProducersMax.
	ProducersMax int
	// ProducerExpiration is producer.id.expiration.ms: how long after its last
	// append a producer is remembered; 0 is DefaultProducerExpiration.
	ProducerExpiration time.Duration
}

// Defaults of Options.
const (
	// DefaultProducersMax is above the 12,000 members of the largest group that
	// we plan for; a full table and its snapshot take 3 MiB each.
	DefaultProducersMax = 16384
	// DefaultProducerExpiration is Kafka's.
	DefaultProducerExpiration = 24 * time.Hour
)

// Partition is one replica of one partition. See the package comment for its
// states; a method may be called by the log's shard only.
type Partition struct {
	epoch     int32 // leader epoch, granted by EventLead; it only rises
	leading   bool
	relaxed   bool             // the written end commits, not the durable one
	ended     error            // of the first EventFailed or EventClosing; nil before
	frontiers engine.Frontiers // as of the last event

	// highWatermark ≤ Durable, or ≤ Written on a relaxed topic. It is what was
	// announced last: every change of it is an EffectHighWatermark.
	highWatermark int64

	// queue holds appended batches in offset order, the first ending above highWatermark.
	queue parkedQueue
	// retries holds retries of batches in queue, in order of arrival. Theirs is
	// a list of its own because their ends do not ascend; it is nearly always empty.
	retries []parked

	producers producerTable
}

var _ engine.Replica = (*Partition)(nil)

// New returns the replica of a log that is about to be recovered.
func New(options Options) *Partition {
	if options.ProducersMax == 0 {
		options.ProducersMax = DefaultProducersMax
	}
	if options.ProducerExpiration == 0 {
		options.ProducerExpiration = DefaultProducerExpiration
	}
	return &Partition{
		producers: newProducerTable(options.ProducersMax, options.ProducerExpiration.Milliseconds()),
	}
}

// Replay implements engine.Replica. The log is the truth: a batch that the
// table would refuse was accepted when its producer was not known, so it is
// taken for that producer's first.
func (p *Partition) Replay(batch record.Batch) {
	if isSequenced(batch) {
		p.producers.replay(sequencedOf(batch), batch.BaseOffset())
	}
}

// Remembered implements engine.Replica.
func (p *Partition) Remembered(nowMillis int64, offsets []int64) []int64 {
	return p.producers.remembered(nowMillis, offsets)
}

// Step implements engine.Replica.
func (p *Partition) Step(nowMillis int64, event *engine.Event, effects []engine.Effect) []engine.Effect {
	p.frontiers = event.Frontiers
	switch event.Kind {
	case engine.EventOpened:
		p.producers.touchReplayed(nowMillis)
		return p.advance(effects)
	case engine.EventConfigured:
		p.relaxed = event.Relaxed
		return p.advance(effects)
	case engine.EventLead:
		if event.Epoch >= p.epoch {
			p.epoch = event.Epoch
			p.leading = true
		}
		return effects
	case engine.EventProduce:
		p.producers.expire(nowMillis)
		return p.produce(nowMillis, event.Append, effects)
	case engine.EventAdvanced, engine.EventStartAdvanced:
		return p.advance(effects)
	case engine.EventTruncated:
		p.producers.touchReplayed(nowMillis)
		return p.truncated(effects)
	case engine.EventFailed, engine.EventClosing:
		return p.end(event.Err, effects)
	}
	panic(fmt.Sprintf("replica: event of unknown kind %d", event.Kind))
}

// produce decides about one batch of a client.
func (p *Partition) produce(nowMillis int64, request *engine.Append, effects []engine.Effect) []engine.Effect {
	switch {
	case p.ended != nil:
		return append(effects, refusal(request, p.ended))
	case !p.leading:
		return append(effects, refusal(request, ErrNotLeader))
	}
	baseOffset := p.frontiers.Next
	if isSequenced(request.Batch) {
		batch := sequencedOf(request.Batch)
		verdict, original := p.producers.judge(batch)
		if verdict == verdictRetry {
			return p.retry(request, original, effects)
		}
		if err := verdict.refusal(); err != nil {
			return append(effects, refusal(request, err))
		}
		p.producers.append(batch, baseOffset, nowMillis)
	}
	p.queue.push(parked{
		append:       request,
		baseOffset:   baseOffset,
		maxTimestamp: request.Batch.MaxTimestamp(),
		end:          baseOffset + int64(request.Batch.LastOffsetDelta()) + 1,
	})
	return append(effects, engine.Effect{Kind: engine.EffectAppend, Append: request, Epoch: p.epoch})
}

// retry answers a batch that is in the log already, as soon as the original is committed.
func (p *Partition) retry(request *engine.Append, original sequencedAt, effects []engine.Effect) []engine.Effect {
	waiting := parked{append: request, baseOffset: original.baseOffset, maxTimestamp: original.maxTimestamp, end: original.end()}
	if waiting.end <= p.highWatermark {
		return append(effects, answer(waiting))
	}
	p.retries = append(p.retries, waiting)
	return effects
}

// advance raises the high watermark to what the frontiers allow and answers
// what it passed.
func (p *Partition) advance(effects []engine.Effect) []engine.Effect {
	committed := p.frontiers.Durable
	if p.relaxed {
		committed = p.frontiers.Written
	}
	if committed <= p.highWatermark {
		return effects
	}
	p.highWatermark = committed
	effects = append(effects, engine.Effect{Kind: engine.EffectHighWatermark, Offset: committed})
	for p.queue.count > 0 && p.queue.front().end <= committed {
		effects = append(effects, answer(p.queue.popFront()))
	}
	if len(p.retries) == 0 {
		return effects
	}
	waiting := p.retries[:0]
	for _, r := range p.retries {
		if r.end <= committed {
			effects = append(effects, answer(r))
		} else {
			waiting = append(waiting, r)
		}
	}
	clear(p.retries[len(waiting):])
	p.retries = waiting
	return effects
}

// truncated refuses what was parked at and above the log's new end. The
// producer table was made anew before, by Restore and Replay.
func (p *Partition) truncated(effects []engine.Effect) []engine.Effect {
	next := p.frontiers.Next
	if p.highWatermark > next {
		p.highWatermark = next
		effects = append(effects, engine.Effect{Kind: engine.EffectHighWatermark, Offset: next})
	}
	effects = p.advance(effects) // a truncation flushes what it keeps
	for p.queue.count > 0 && p.queue.back().end > next {
		effects = append(effects, refusal(p.queue.popBack().append, ErrTruncated))
	}
	waiting := p.retries[:0]
	for _, r := range p.retries {
		if r.end > next {
			effects = append(effects, refusal(r.append, ErrTruncated))
		} else {
			waiting = append(waiting, r)
		}
	}
	clear(p.retries[len(waiting):])
	p.retries = waiting
	return effects
}

// end answers everything parked with err and refuses whatever comes.
func (p *Partition) end(err error, effects []engine.Effect) []engine.Effect {
	if p.ended == nil {
		p.ended = err
	}
	for p.queue.count > 0 {
		effects = append(effects, refusal(p.queue.popFront().append, p.ended))
	}
	for _, r := range p.retries {
		effects = append(effects, refusal(r.append, p.ended))
	}
	clear(p.retries)
	p.retries = p.retries[:0]
	return effects
}

func answer(p parked) engine.Effect {
	return engine.Effect{Kind: engine.EffectAnswer, Append: p.append, Offset: p.baseOffset, MaxTimestamp: p.maxTimestamp}
}

func refusal(request *engine.Append, err error) engine.Effect {
	return engine.Effect{Kind: engine.EffectAnswer, Append: request, Offset: -1, Err: err}
}
