package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// errUnread closes a connection whose answer waits for a client that does not read it, while
// others need the memory.
var errUnread = errors.New("kafka: the memory of an answer that is not read is needed")

const (
	// requestMemoryDefault is Options.RequestMemoryBytes of a broker that sets none.
	requestMemoryDefault = 64 << 20
	// smallRequestBytes is what a request may hold on the Go heap without asking: what is
	// bounded by the number of connections needs no account. Nearly all requests are so.
	smallRequestBytes = 64 << 10
	// unreadMin is how long an answer may lie unread before its connection is closed because
	// others wait for memory: a client that reads at all has begun by then.
	unreadMin = time.Second
	// evictEvery is how often a request that waits for memory looks for such answers.
	evictEvery = 250 * time.Millisecond
)

// memory bounds what the large requests of all connections hold on the Go heap together: decoded
// bodies, the partitions of fetches, answers until they are sent. (The bytes of frames are
// in their pool, and records in the engine's.) A request asks once, for all that it will
// need, and waits in line for it; it never holds some and waits for more.
//
//	take ──granted──▶ held ──answered──▶ unread ──give──▶ gone
//	  │ waits in line              │         └── others wait, and it is not being read: its connection is closed
//	  └── the connection ends      └── without an answer: give
//
// Small requests (smallRequestBytes) pass by, so that nobody who holds all of this keeps them
// from being served.
type memory struct {
	limit int64
	mu    struct {
		sync.Mutex
		used int64
		// waiting is the line, in order of arrival.
		waiting []*memoryWait
		// oldest and newest are the ends of the list of answers that are not sent yet.
		oldest, newest *holding
		waits, evicted int64
	}
}

// memoryWait is one request in line. granted is closed when it has its memory.
type memoryWait struct {
	holding *holding
	bytes   int64
	granted chan struct{}
}

// holding is what one request holds of a memory. The zero value holds nothing. It belongs to
// the request; its fields are guarded by the memory's lock.
type holding struct {
	session        *session
	bytes          int64
	unread         bool // in the list
	since          time.Time
	previous, next *holding
}

// RequestMemory describes what large requests hold on the Go heap.
type RequestMemory struct {
	LimitBytes, InUseBytes int64
	// Waits counts requests that had to wait for memory, Evicted the connections that were closed
	// because they did not read an answer while others waited.
	Waits, Evicted int64
}

// RequestMemory describes what the large requests of all connections hold.
func (p *Protocol) RequestMemory() RequestMemory {
	m := &p.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	return RequestMemory{LimitBytes: m.limit, InUseBytes: m.mu.used, Waits: m.mu.waits, Evicted: m.mu.evicted}
}

// take waits until bytes are to be had for h, or ctx ends. What is more than there is at all is
// given alone. REQUIRES: h holds nothing.
func (m *memory) take(ctx context.Context, h *holding, bytes int64) error {
	bytes = min(bytes, m.limit)
	m.mu.Lock()
	if len(m.mu.waiting) == 0 && m.mu.used+bytes <= m.limit {
		h.bytes = bytes
		m.mu.used += bytes
		m.mu.Unlock()
		return nil
	}
	m.mu.waits++
	wait := &memoryWait{holding: h, bytes: bytes, granted: make(chan struct{})}
	m.mu.waiting = append(m.mu.waiting, wait)
	m.mu.Unlock()
	again := time.NewTicker(evictEvery)
	defer again.Stop()
	for {
		select {
		case <-wait.granted:
			return nil
		case now := <-again.C:
			m.evict(now)
		case <-ctx.Done():
			m.leave(wait)
			return context.Cause(ctx)
		}
	}
}

// leave takes a request out of the line, or gives back what it was granted meanwhile.
func (m *memory) leave(wait *memoryWait) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.mu.waiting {
		if m.mu.waiting[i] == wait {
			m.mu.waiting = append(m.mu.waiting[:i], m.mu.waiting[i+1:]...)
			m.grantLocked() // those behind it may fit
			return
		}
	}
	m.giveLocked(wait.holding)
}

// crowded says that half of the memory is in use: what could wait and hold some had better not.
func (m *memory) crowded() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.used > m.limit/2
}

// answered notes that h holds so many bytes from now on, those of an answer that is to be sent
// by session. It takes more without waiting if it has to: the answer is there.
func (m *memory) answered(h *holding, session *session, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.used += bytes - h.bytes
	h.bytes, h.session, h.unread, h.since = bytes, session, true, time.Now()
	h.previous, h.next = m.mu.newest, nil
	if h.previous == nil {
		m.mu.oldest = h
	} else {
		h.previous.next = h
	}
	m.mu.newest = h
	m.grantLocked()
}

// give gives back what h holds, if it holds anything.
func (m *memory) give(h *holding) {
	if h.bytes == 0 { // written by its request alone, or while that waits
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.giveLocked(h)
}

func (m *memory) giveLocked(h *holding) {
	m.mu.used -= h.bytes
	m.unlinkLocked(h)
	*h = holding{}
	m.grantLocked()
}

func (m *memory) unlinkLocked(h *holding) {
	if !h.unread {
		return
	}
	if h.previous == nil {
		m.mu.oldest = h.next
	} else {
		h.previous.next = h.next
	}
	if h.next == nil {
		m.mu.newest = h.previous
	} else {
		h.next.previous = h.previous
	}
	h.previous, h.next = nil, nil
}

func (m *memory) grantLocked() {
	for len(m.mu.waiting) > 0 {
		first := m.mu.waiting[0]
		if m.mu.used > 0 && m.mu.used+first.bytes > m.limit {
			return
		}
		m.mu.waiting[0] = nil
		m.mu.waiting = m.mu.waiting[1:]
		first.holding.bytes = first.bytes
		m.mu.used += first.bytes
		close(first.granted)
	}
}

// evict closes the connection whose answer has been unread for longest, if that is unreadMin and more.
// Its memory comes back when it is gone.
func (m *memory) evict(now time.Time) {
	m.mu.Lock()
	h := m.mu.oldest
	if h == nil || now.Sub(h.since) < unreadMin {
		m.mu.Unlock()
		return
	}
	m.unlinkLocked(h)
	h.unread = false
	m.mu.evicted++
	session, bytes := h.session, h.bytes
	m.mu.Unlock()
	session.conn.Close(fmt.Errorf("%w: %d bytes", errUnread, bytes))
}
