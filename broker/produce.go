package broker

import (
	"fmt"
	"math"
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
	// SkewMillis is how far the largest timestamp lies from the broker's clock, ahead if positive, when
	// that is too far to be believed (clockSkew); else 0.
	SkewMillis int64
	Err        error // a *record.InvalidError names the records that are at fault
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
	// Sequence is what orders the produces of the connection that this one came by. Without
	// one everything is checked in the goroutine of Start, however long that takes.
	Sequence *Sequence
	// Consumed is called once, before Done, when no Records are referenced any
	// more. Done is called once when every part has its answer. Both are called on a
	// shard's thread, on a checker's or in the goroutine of Start, and must not block.
	Consumed func()
	Done     func(*Produce)

	broker *Broker
	group  engine.AppendGroup
	partOf []int // of each append of group, its place in Parts

	// The checks, which are done for all parts before at. They belong to the goroutine of
	// Start and then, if it gives p away, to the checker that takes it.
	validator record.Validator
	now       int64
	at        int
	inPlace   int64 // bytes that may still be decompressed in place
	entered   bool  // the validator counts among the checkers' inPlace
	moved     bool  // or among those moved
	// recompressed is how many bytes of batches were compressed anew and not given to the engine.
	recompressed int64
	next         *Produce
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

// partsPooledMax bounds what a produce keeps for the next one: a rare request for a
// hundred thousand partitions must not pin megabytes.
const partsPooledMax = 4096

// Release gives the produce back. REQUIRES: Done was called, or Start never was.
func (p *Produce) Release() {
	clear(p.Parts)
	clear(p.group.Appends)
	p.Parts, p.partOf = p.Parts[:0], p.partOf[:0]
	p.group.Appends = p.group.Appends[:0]
	if cap(p.Parts) > partsPooledMax {
		p.Parts, p.partOf, p.group.Appends = nil, nil, nil
	}
	p.Acks, p.Checked, p.ZstdRefused, p.Sequence = 0, false, false, nil
	p.Consumed, p.Done, p.broker = nil, nil, nil
	produces.Put(p)
}

// Start checks the batches and hands those that pass to the shard. It does not block, but
// for the work that it does: checks that would take long are finished by a checker.
// Produces started by one goroutine with the same Sequence, or with none, reach each
// partition in that order.
func (p *Produce) Start() {
	for i := range p.Parts {
		part := &p.Parts[i]
		part.BaseOffset, part.AppendMillis, part.Start = -1, -1, -1
	}
	p.now = p.broker.Now()
	p.at, p.inPlace, p.entered, p.moved = 0, inPlaceBytesMax, false, false
	s := p.Sequence
	switch {
	case s == nil:
		p.check(false)
	case s.wait(p):
		return
	case !p.checkInPlace():
		c := &p.broker.checkers
		p.move()
		s.lend(p)
		c.submit(s)
		return
	}
	p.launch()
}

// checkInPlace is check in the goroutine of Start. A panic is the business of who called
// that, but must not leave the validator among those that are under way.
func (p *Produce) checkInPlace() (done bool) {
	returned := false
	defer func() {
		if !returned {
			p.leave()
		}
	}()
	done = p.check(true)
	returned = true
	return done
}

// check goes on with the checks; in place it returns false when the rest would take long.
func (p *Produce) check(inPlace bool) (done bool) {
	for ; p.at < len(p.Parts); p.at++ {
		part := &p.Parts[p.at]
		if part.Err != nil {
			continue
		}
		log, err := p.broker.leaderLog(part.Topic, part.Partition, LeaderEpochAny)
		if err == nil && !p.validator.Busy() {
			err = p.admit(part)
		}
		if err == nil && !p.Checked {
			if inPlace && recompresses(part) {
				return false // before anything of it is begun
			}
			if done, err = p.validate(part, inPlace); !done && err == nil {
				return false
			}
		}
		if err == nil && !p.Checked && recompresses(part) {
			err = p.recompress(part)
		}
		if err != nil {
			part.Err = err
			p.validator.Close()
			p.leave()
			continue
		}
		if part.Topic.Config.LogAppendTime {
			record.Batch(part.Records).SetLogAppendTime(p.now)
			part.AppendMillis = p.now
		}
		p.group.Appends = append(p.group.Appends, engine.Append{Log: log, Batch: part.Records})
		p.partOf = append(p.partOf, p.at)
	}
	return true
}

// admit decides what can be told about a part without its records.
func (p *Produce) admit(part *ProducePart) error {
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
	return nil
}

// validate begins or goes on with the validation of a part and, when it passes, makes
// its batch what will be stored. In place it is not done, without an error, when the rest
// would take more than what inPlace has left.
func (p *Produce) validate(part *ProducePart, inPlace bool) (done bool, err error) {
	v, cost := &p.validator, record.CostOf(part.Records)
	if !v.Busy() {
		if inPlace && cost != record.CostNothing {
			if cost == record.CostBlock || p.inPlace <= 0 || !p.broker.checkers.enter() {
				return false, nil
			}
			p.entered = true
		}
		config := &part.Topic.Config
		rules := record.Rules{
			NowMillis:                p.now,
			LogAppendTime:            config.LogAppendTime,
			TimestampBeforeMaxMillis: config.TimestampBeforeMaxMillis,
			TimestampAfterMaxMillis:  config.TimestampAfterMaxMillis,
			KeysRequired:             config.Compact,
			ZstdRefused:              p.ZstdRefused,
		}
		if err := v.Start(part.Records, &rules); err != nil {
			return true, err
		}
	}
	if cost == record.CostBlock {
		p.broker.checkers.block.Lock()
		defer p.broker.checkers.block.Unlock()
	}
	bytesMax := int64(math.MaxInt64)
	if inPlace {
		bytesMax = p.inPlace
	}
	if done, err = v.Resume(bytesMax); !done || err != nil {
		return done, err
	}
	result := v.Result()
	if cost != record.CostNothing {
		p.inPlace -= result.DecompressedBytes
	}
	p.leave()
	batch := record.Batch(part.Records)
	if batch.Transactional() {
		return true, ErrTransactional
	}
	if config := &part.Topic.Config; !config.LogAppendTime {
		batch.SetMaxTimestamp(result.MaxTimestamp)
		part.SkewMillis = clockSkew(config, result.MaxTimestamp, p.now)
	}
	return true, nil
}

// leave takes the validator out of those that were begun in place.
func (p *Produce) leave() {
	if p.entered {
		p.entered = false
		p.broker.checkers.leave()
	}
	if p.moved {
		p.moved = false
		p.broker.checkers.arrive()
	}
}

// move readies p for a checker: it goes on where it is, or begins its batch anew.
func (p *Produce) move() {
	if !p.entered {
		return
	}
	p.entered = false
	if p.moved = p.broker.checkers.move(); !p.moved {
		p.validator.Close()
	}
}

// abandon refuses all parts that are not checked, after a panic. The validator may be
// anywhere: it is dropped with all that it borrowed.
func (p *Produce) abandon(err error) {
	p.validator = record.Validator{}
	p.leave()
	for ; p.at < len(p.Parts); p.at++ {
		if part := &p.Parts[p.at]; part.Err == nil {
			part.Err = err
		}
	}
}

// launch hands what passed to the engine, or answers at once.
func (p *Produce) launch() {
	if len(p.group.Appends) == 0 {
		p.consumed()
		p.Done(p)
		return
	}
	p.broker.engine.Append(&p.group)
}

func (p *Produce) consumed() {
	if p.recompressed > 0 {
		p.broker.recompressors.give(p.recompressed)
		p.recompressed = 0
	}
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
		if part.AppendMillis >= 0 { // a batch that came before has the time of then
			part.AppendMillis = answer.MaxTimestamp
		}
	}
	p.Done(p)
}
