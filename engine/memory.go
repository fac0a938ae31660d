package engine

// begMemoryBytes is how much cache a shard asks another one for at a time.
const begMemoryBytes = 4 << 20

// begMemory asks the other shards to give up cache when logs wait for memory and
// this one has none to give up: the pool is everybody's, and what the others
// keep for readers is worth less than an append. They are asked once for each time
// that memory came back; one that has none to give now remembers.
func (s *shard) begMemory() {
	if s.begged || len(s.starved) == 0 {
		return
	}
	s.begged = true
	for _, other := range s.engine.shards {
		if other != s {
			other.inbox.send(message{begged: begMemoryBytes})
		}
	}
}

// giveMemory gives up cache for a shard that asked, as soon as there is some. The pool
// tells it.
func (s *shard) giveMemory() {
	for s.owed > 0 && s.tail.oldest != nil {
		s.owed -= int64(len(s.tail.oldest.bytes))
		s.tail.evict()
	}
}
