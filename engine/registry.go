package engine

import "sync"

// registry is the open logs, for goroutines other than the shard's.
type registry struct {
	mu struct {
		sync.RWMutex
		logs    map[LogID]*Log
		unknown []LogID // directories that nobody opened, in order of their names
	}
}

func (r *registry) get(id LogID) (*Log, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	l, ok := r.mu.logs[id]
	return l, ok
}

func (r *registry) add(l *Log) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.logs == nil {
		r.mu.logs = make(map[LogID]*Log)
	}
	r.mu.logs[l.id] = l
	r.dropLocked(l.id)
}

func (r *registry) remove(id LogID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.mu.logs, id)
}

func (r *registry) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.logs = nil
}

// dropLocked takes id out of the unknown ones. REQUIRES: mu.
func (r *registry) dropLocked(id LogID) {
	for i, other := range r.mu.unknown {
		if other == id {
			r.mu.unknown = append(r.mu.unknown[:i:i], r.mu.unknown[i+1:]...)
			return
		}
	}
}

func (r *registry) setUnknown(ids []LogID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.unknown = ids
}

func (r *registry) dropUnknown(id LogID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropLocked(id)
}

func (r *registry) unknown() []LogID {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return append([]LogID(nil), r.mu.unknown...)
}

// Unknown implements API.
func (e *Engine) Unknown() []LogID { return e.registry.unknown() }
