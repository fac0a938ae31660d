package engine

import (
	"bytes"
	"slices"
	"sync"
)

// registry is the open logs, for goroutines other than the shards'.
type registry struct {
	mu struct {
		sync.RWMutex
		logs    map[LogID]*Log
		unknown map[LogID]struct{} // directories that nobody opened
		closing map[LogID]string   // while the engine closes: the labels of those that are not at rest
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
	delete(r.mu.unknown, l.id)
}

func (r *registry) remove(id LogID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.mu.logs, id)
}

func (r *registry) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.logs, r.mu.closing = nil, nil
}

// setClosing notes that these logs of a shard are being brought to rest.
func (r *registry) setClosing(logs []*Log) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.closing == nil {
		r.mu.closing = make(map[LogID]string, len(logs))
	}
	for _, l := range logs {
		r.mu.closing[l.id] = l.label
	}
}

// rested notes that a log is at rest, or will never be.
func (r *registry) rested(id LogID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.mu.closing, id)
}

func (r *registry) setUnknown(ids []LogID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.unknown = make(map[LogID]struct{}, len(ids))
	for _, id := range ids {
		r.mu.unknown[id] = struct{}{}
	}
}

func (r *registry) dropUnknown(id LogID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.mu.unknown, id)
}

// unknown returns the directories that nobody opened, in order of their names.
func (r *registry) unknown() []LogID {
	r.mu.RLock()
	defer r.mu.RUnlock()
	ids := make([]LogID, 0, len(r.mu.unknown))
	for id := range r.mu.unknown {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b LogID) int { return bytes.Compare(a[:], b[:]) })
	return ids
}

// Unknown implements API.
func (e *Engine) Unknown() []LogID { return e.registry.unknown() }

// Closing returns the labels, sorted, of the logs that Close still waits for: not all
// that they were given is on the disk yet. None before Close and after it.
func (e *Engine) Closing() []string {
	r := &e.registry
	r.mu.RLock()
	defer r.mu.RUnlock()
	labels := make([]string, 0, len(r.mu.closing))
	for _, label := range r.mu.closing {
		labels = append(labels, label)
	}
	slices.Sort(labels)
	return labels
}
