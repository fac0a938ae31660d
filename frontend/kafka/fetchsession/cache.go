package fetchsession

import (
	"errors"
	"math"
	"slices"
)

// Errors of a Begin; upon each a client starts over with a full fetch.
var (
	// ErrNotFound is returned when there is no session of that id (any more).
	ErrNotFound = errors.New("fetchsession: no such session")
	// ErrEpoch is returned when the request is not the next one of its session.
	ErrEpoch = errors.New("fetchsession: wrong epoch")
	// ErrTopicIDs is returned when a session that names topics by id is asked by name, or
	// the other way round.
	ErrTopicIDs = errors.New("fetchsession: topics are named in another way")
)

// EvictionMillisDefault is how long a session is safe from being evicted for a larger one,
// and how long it may go unused: Kafka's MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS.
const EvictionMillisDefault = 120_000

// Options bound a Cache.
type Options struct {
	// SessionsMax is max.incremental.fetch.session.cache.slots; 0 makes no session.
	SessionsMax int
	// PartitionsMax bounds the partitions of all sessions together, which Kafka does not.
	PartitionsMax int
	// EvictionMillis is EvictionMillisDefault when it is 0.
	EvictionMillis int64
}

// Cache holds the sessions of a listener. It has one owner at a time.
type Cache struct {
	options    Options
	sessions   []*Session // in any order; Session.place is where one is
	byID       map[int32]*Session
	partitions int // of all sessions
	evictions  int64
}

// Status is what metrics show of a Cache.
type Status struct {
	Sessions   int
	Partitions int
	Evictions  int64 // since the start
}

// New returns a cache without sessions.
func New(options Options) *Cache {
	if options.EvictionMillis == 0 {
		options.EvictionMillis = EvictionMillisDefault
	}
	return &Cache{options: options, byID: make(map[int32]*Session)}
}

// Status describes the cache.
func (c *Cache) Status() Status {
	return Status{Sessions: len(c.sessions), Partitions: c.partitions, Evictions: c.evictions}
}

// Partitions is the number of partitions of a session, 0 when there is none of that id.
func (c *Cache) Partitions(id int32) int {
	if s := c.byID[id]; s != nil {
		return s.Len()
	}
	return 0
}

// Create makes a session of the partitions of a full fetch, or returns nil when there is no
// place for it: the client then goes on without. Its id is candidate, which is above 0 and
// drawn at random, or the next one that is free.
func (c *Cache) Create(nowMillis int64, candidate int32, byID bool, wishes []Wish) *Session {
	if len(wishes) > c.options.PartitionsMax || c.options.SessionsMax == 0 {
		return nil
	}
	for len(c.sessions) >= c.options.SessionsMax || c.partitions+len(wishes) > c.options.PartitionsMax {
		if !c.evict(nowMillis, len(wishes)) {
			return nil
		}
	}
	for c.byID[candidate] != nil {
		candidate = nextEpoch(candidate) // 1 to MaxInt32, like epochs
	}
	s := &Session{ID: candidate, epoch: 1, byID: byID, created: nowMillis, used: nowMillis, head: none, tail: none,
		at: make(map[Partition]int32, len(wishes))}
	for i := range wishes {
		s.set(&wishes[i])
	}
	s.place = len(c.sessions)
	c.sessions = append(c.sessions, s)
	c.byID[s.ID] = s
	c.partitions += s.Len()
	return s
}

// evict makes room for a session of so many partitions by Kafka's rules: one that was not used for
// EvictionMillis goes, the one unused for longest first; else the one with the fewest partitions,
// if it is older than that and not larger than the new one.
func (c *Cache) evict(nowMillis int64, size int) bool {
	var stale, smallest *Session
	for _, s := range c.sessions {
		if stale == nil || s.used < stale.used || s.used == stale.used && s.ID < stale.ID {
			stale = s
		}
		if s.used-s.created <= c.options.EvictionMillis {
			continue
		}
		if smallest == nil || s.Len() < smallest.Len() || s.Len() == smallest.Len() && s.ID < smallest.ID {
			smallest = s
		}
	}
	switch {
	case stale != nil && nowMillis-stale.used > c.options.EvictionMillis:
		c.remove(stale)
	case smallest != nil && smallest.Len() < size:
		c.remove(smallest)
	default:
		return false
	}
	c.evictions++
	return true
}

// Begin opens a session for its next request, with what that changes: partitions to be read
// otherwise or in addition, and partitions to forget. It returns nil without an error when none
// is left, which ends the session.
func (c *Cache) Begin(nowMillis int64, id, epoch int32, byID bool, wishes []Wish, forgotten []Partition) (*Session, error) {
	s := c.byID[id]
	switch {
	case s == nil:
		return nil, ErrNotFound
	case s.byID != byID:
		return nil, ErrTopicIDs
	case s.epoch != epoch:
		return nil, ErrEpoch
	}
	before := s.Len()
	for i := range wishes {
		s.set(&wishes[i])
	}
	for i := range forgotten {
		s.forget(&forgotten[i])
	}
	c.partitions += s.Len() - before
	if s.Len() == 0 {
		c.remove(s)
		return nil, nil
	}
	if c.partitions > c.options.PartitionsMax {
		c.remove(s)
		c.evictions++
		return nil, ErrNotFound
	}
	s.used = nowMillis
	s.epoch = nextEpoch(epoch)
	return s, nil
}

// End ends a session, if there is one of that id.
func (c *Cache) End(id int32) {
	if s := c.byID[id]; s != nil {
		c.remove(s)
	}
}

func (c *Cache) remove(s *Session) {
	last := len(c.sessions) - 1
	c.sessions[s.place] = c.sessions[last]
	c.sessions[s.place].place = s.place
	c.sessions = slices.Delete(c.sessions, last, last+1)
	delete(c.byID, s.ID)
	c.partitions -= s.Len()
}

// nextEpoch is the epoch after one: from 1 round to the largest number and back to 1.
func nextEpoch(epoch int32) int32 {
	if epoch == math.MaxInt32 {
		return 1
	}
	return epoch + 1
}
