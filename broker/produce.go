package broker

import (
	"fmt"
	"sync"

	"ringlog/engine"
	"ringlog/record"
)

// Acks is what a produce waits for, as Kafka numbers it.
type Acks int16

// The three promises; see the contract in the README.
const (
	AcksNone   Acks = 0
	AcksLeader Acks = 1
	AcksAll    Acks = -1
)

// ProducePart is one batch for one partition, and is answered in place.
type ProducePart struct {
	// Topic is nil when there is none; Err says why.
	Topic     *Topic
	Partition int32
	// Records are the bytes that the client sent: exactly one batch. They are
	// patched in place and must stay until Produce.Consumed.
	Records []byte

	// The answer. BaseOffset, AppendMillis and Start are -1 when Err is not nil.
	BaseOffset   int64
	AppendMillis int64 // with message.timestamp.type=LogAppendTime, else -1
	Start        int64 // the log's first offset
	Err          error // a *record.InvalidError names the records that are at fault
}

// Produce appends batches to partitions. It is made by NewProduce, filled, started
// by Start and given back by Release after Done. It belongs to the caller but for
// the time between Start and Done.
type Produce struct {
	Parts []ProducePart
	Acks  Acks
	// Checked says that the batches come from this process and passed a
	// Validator already.
	Checked bool
	// ZstdRefused refuses zstd batches: the protocol's version has no code for
	// them (KIP-110).
	ZstdRefused bool
	// Consumed is called once, before Done, when no Records are referenced any
	// more. Done is called once when every part has its answer. Both are called on a
	// shard's thread or in the goroutine of Start, and must not block.
	Consumed func()
	Done     func(*Produce)

	broker    *Broker
	validator record.Validator
	group     engine.AppendGroup
	partOf    []int // of each append of group, its place in Parts
}

var produces = sync.Pool{New: func() any {
	p := new(Produce)
	p.group.Owner = produceOwner{p}
	return p
}}

// NewProduce returns an empty produce.
func (b *Broker) NewProduce() *Produce {
	p := produces.Get().(*Produce)
	p.broker = b
	return p
}

// Add appends a part and returns it, to be filled before the next Add.
func (p *Produce) Add() *ProducePart {
	p.Parts = append(p.Parts, ProducePart{})
	return &p.Parts[len(p.Parts)-1]
}

// Release gives the produce back. REQUIRES: Done was called, or Start never was.
func (p *Produce) Release() {
	clear(p.Parts)
	clear(p.group.Appends)
	p.Parts, p.partOf = p.Parts[:0], p.partOf[:0]
	p.group.Appends = p.group.Appends[:0]
	p.Acks, p.Checked, p.ZstdRefused = 0, false, false
	p.Consumed, p.Done, p.broker = nil, nil, nil
	produces.Put(p)
}

// Start validates the batches, here in the caller's goroutine, and hands those
// that pass to the shard. Produces started by one goroutine reach each partition in
// that order. It does not block.
func (p *Produce) Start() {
	now := p.broker.Now()
	for i := range p.Parts {
		part := &p.Parts[i]
		part.BaseOffset, part.AppendMillis, part.Start = -1, -1, -1
		if part.Err != nil {
			continue
		}
		log, err := p.broker.leaderLog(part.Topic, part.Partition, LeaderEpochAny)
		if err == nil {
			err = p.accept(part, now)
		}
		if err != nil {
			part.Err = err
			continue
		}
		p.group.Appends = append(p.group.Appends, engine.Append{Log: log, Batch: part.Records})
		p.partOf = append(p.partOf, i)
	}
	if len(p.group.Appends) == 0 {
		p.consumed()
		p.Done(p)
		return
	}
	p.broker.engine.Append(&p.group)
}

// accept decides whether a part may be appended and makes its batch what will be
// stored.
func (p *Produce) accept(part *ProducePart, now int64) error {
	topic, config := part.Topic, &part.Topic.Config
	if topic.Internal {
		return fmt.Errorf("%w: %s", ErrInternalTopic, topic.Name)
	}
	inSync := len(topic.Partitions[part.Partition].ISR)
	if p.Acks == AcksAll && inSync < int(config.MinInsyncReplicas) {
		return fmt.Errorf("%w: %d in sync, min.insync.replicas of topic %s is %d", ErrNotEnoughReplicas, inSync, topic.Name, config.MinInsyncReplicas)
	}
	if size := len(part.Records); size > int(config.MessageBytesMax) {
		return fmt.Errorf("%w: the batch for %s-%d has %d bytes, max.message.bytes of the topic is %d",
			ErrBatchTooLarge, topic.Name, part.Partition, size, config.MessageBytesMax)
	}
	batch := record.Batch(part.Records)
	if !p.Checked {
		rules := record.Rules{
			NowMillis:                now,
			LogAppendTime:            config.LogAppendTime,
			TimestampBeforeMaxMillis: config.TimestampBeforeMaxMillis,
			TimestampAfterMaxMillis:  config.TimestampAfterMaxMillis,
			ZstdRefused:              p.ZstdRefused,
		}
		checked, err := p.validator.Validate(part.Records, &rules)
		if err != nil {
			return err
		}
		if batch.Transactional() {
			return ErrTransactional
		}
		if !config.LogAppendTime {
			batch.SetMaxTimestamp(checked.MaxTimestamp)
		}
	}
	if config.LogAppendTime {
		batch.SetLogAppendTime(now)
		part.AppendMillis = now
	}
	return nil
}

func (p *Produce) consumed() {
	if p.Consumed != nil {
		p.Consumed()
	}
}

// produceOwner is a Produce as the engine sees it.
type produceOwner struct{ produce *Produce }

// Consumed implements engine.AppendOwner.
func (o produceOwner) Consumed(*engine.AppendGroup) { o.produce.consumed() }

// Answered implements engine.AppendOwner.
func (o produceOwner) Answered(group *engine.AppendGroup) {
	p := o.produce
	for i := range group.Appends {
		answer, part := &group.Appends[i], &p.Parts[p.partOf[i]]
		if answer.Err != nil {
			part.Err, part.AppendMillis = answer.Err, -1
			continue
		}
		part.BaseOffset, part.Start = answer.BaseOffset, answer.StartOffset
	}
	p.Done(p)
}
