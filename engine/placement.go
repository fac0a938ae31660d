package engine

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"ringlog/engine/segment"
)

// placement is the table that says on which shard each log lives. New logs go
// where there are fewest, so that they are dealt round whatever was deleted. An engine of
// one shard neither reads nor writes it, and leaves what is there for the day
// when it has more.
type placement struct {
	mu struct {
		sync.Mutex
		shards  map[LogID]int
		counts  []int  // logs of each shard
		version uint64 // raised by each change
	}

	// What follows belongs to shard 0, which writes the file.
	saving  jobLock // of file
	file    pair
	durable uint64 // version of the file
}

func (p *placement) init(shards int) {
	p.mu.shards = make(map[LogID]int)
	p.mu.counts = make([]int, shards)
	p.file = pair{directory: ".", name: segment.PlacementName}
}

// of returns the shard of a log; ok is false when it has none.
func (p *placement) of(id LogID) (shard int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	shard, ok = p.mu.shards[id]
	return shard, ok
}

// place returns the shard of a log, and gives it one when it has none.
func (p *placement) place(id LogID) (shard int, fresh bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.mu.counts) == 1 {
		return 0, false
	}
	if shard, ok := p.mu.shards[id]; ok {
		return shard, false
	}
	for n, count := range p.mu.counts {
		if count < p.mu.counts[shard] {
			shard = n
		}
	}
	p.putLocked(id, shard)
	return shard, true
}

// put gives a log this shard.
func (p *placement) put(id LogID, shard int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if old, ok := p.mu.shards[id]; ok {
		p.mu.counts[old]--
	}
	p.putLocked(id, shard)
}

func (p *placement) putLocked(id LogID, shard int) {
	p.mu.shards[id] = shard
	p.mu.counts[shard]++
	p.mu.version++
}

// forget takes a log out that is gone. The file learns it with the next change.
func (p *placement) forget(id LogID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if shard, ok := p.mu.shards[id]; ok {
		delete(p.mu.shards, id)
		p.mu.counts[shard]--
	}
}

// encode returns the file as it should be, and its version.
func (p *placement) encode() ([]byte, uint64) {
	p.mu.Lock()
	table := segment.Placement{Shards: len(p.mu.counts), Logs: make([]segment.Placed, 0, len(p.mu.shards))}
	for id, shard := range p.mu.shards {
		table.Logs = append(table.Logs, segment.Placed{LogID: id, Shard: shard})
	}
	version := p.mu.version
	p.mu.Unlock()
	slices.SortFunc(table.Logs, func(a, b segment.Placed) int { return bytes.Compare(a.LogID[:], b.LogID[:]) })
	return table.Encode(), version
}

// save makes every change so far durable. Those who ask while a file is written
// share the next one: ten thousand logs are placed with a few.
func (p *placement) save(j *job) error {
	p.mu.Lock()
	want := p.mu.version
	p.mu.Unlock()
	if err := p.saving.lock(j); err != nil {
		return err
	}
	defer p.saving.unlock(j.shard)
	if p.durable >= want {
		return nil
	}
	content, version := p.encode()
	if err := j.shard.reserve.replace(j, &p.file, content); err != nil {
		return err
	}
	if err := p.file.settle(j); err != nil {
		return err
	}
	p.durable = version
	return nil
}

// savePlacement makes the placement table durable.
func (e *Engine) savePlacement(ctx context.Context) error {
	return e.call(ctx, e.shards[0], e.placement.save)
}
