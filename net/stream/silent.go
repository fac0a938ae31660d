package stream

import "time"

// silentMin is how long a connection has to send its first frame before its place may be given
// away: a client that has just connected is about to.
const silentMin = time.Second

// evictedMax bounds the connections that are over the limit, because the one whose place they
// took is not gone yet.
const evictedMax = 64

// silentConnections are those that never sent a whole frame, in the order in which they came. Who
// opens connections and says nothing has the least to lose, and costs everybody else a place.
type silentConnections struct {
	oldest, newest *connection
}

// silentPlace is a connection's place in the list, guarded by the listener's lock.
type silentPlace struct {
	listed         bool
	since          time.Time
	previous, next *connection
}

func (s *silentConnections) add(c *connection, now time.Time) {
	c.silent = silentPlace{listed: true, since: now, previous: s.newest}
	if s.newest == nil {
		s.oldest = c
	} else {
		s.newest.silent.next = c
	}
	s.newest = c
}

// remove takes a connection from the list, if it is there.
func (s *silentConnections) remove(c *connection) {
	if !c.silent.listed {
		return
	}
	previous, next := c.silent.previous, c.silent.next
	if previous == nil {
		s.oldest = next
	} else {
		previous.silent.next = next
	}
	if next == nil {
		s.newest = previous
	} else {
		next.silent.previous = previous
	}
	c.silent = silentPlace{}
}

// evict takes the oldest from the list, if it has had its time; nil when there is none.
func (s *silentConnections) evict(now time.Time) *connection {
	c := s.oldest
	if c == nil || now.Sub(c.silent.since) < silentMin {
		return nil
	}
	s.remove(c)
	return c
}

// spoke notes that a whole frame has come on c. REQUIRES: called by its owner, once.
func (l *Listener) spoke(c *connection) {
	c.progress.spoke.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.silent.remove(c)
}
