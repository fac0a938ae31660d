package killtest

import "sync"

// Topics is what somebody was told who creates and deletes topics, puts records
// into them, and uses their names again. Its methods may be called from any
// goroutine.
type Topics struct {
	mu    sync.Mutex
	known map[string]*topicState
}

// topicState is what is known of one name.
type topicState struct {
	there              bool
	asked              bool  // to create or delete it, and not answered: either may be true
	sent, acknowledged int64 // records, since it was created last
}

// NewTopics returns an empty memory.
func NewTopics() *Topics { return &Topics{known: map[string]*topicState{}} }

func (s *Topics) change(name string, change func(*topicState)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[name] == nil {
		s.known[name] = &topicState{}
	}
	change(s.known[name])
}

// Exists says whether the topic is known to be there.
func (s *Topics) Exists(name string) (there bool) {
	s.change(name, func(t *topicState) { there = t.there })
	return there
}

// AskCreate notes that a topic may be there from now on.
func (s *Topics) AskCreate(name string) {
	s.change(name, func(t *topicState) { *t = topicState{asked: true} })
}

// Created notes that it was created: it must be there.
func (s *Topics) Created(name string) {
	s.change(name, func(t *topicState) { t.there, t.asked = true, false })
}

// AskDelete notes that a topic may be gone from now on.
func (s *Topics) AskDelete(name string) {
	s.change(name, func(t *topicState) { t.asked = true })
}

// Deleted notes that it was deleted: it must be gone.
func (s *Topics) Deleted(name string) {
	s.change(name, func(t *topicState) { *t = topicState{} })
}

// Send notes that one more record may be in a topic.
func (s *Topics) Send(name string) { s.change(name, func(t *topicState) { t.sent++ }) }

// Acknowledge notes that one more record must be in it.
func (s *Topics) Acknowledge(name string) { s.change(name, func(t *topicState) { t.acknowledged++ }) }

// Check judges what is found, the end offset of each topic, while nobody changes
// any, and goes on from there.
func (s *Topics) Check(found map[string]int64) []Anomaly {
	s.mu.Lock()
	defer s.mu.Unlock()
	var c checker
	for _, name := range sortedKeys(s.known) {
		state := s.known[name]
		end, there := found[name]
		switch {
		case there && !state.there && !state.asked:
			c.report(KindBack, "topic %s was deleted, or never made, and is there", name)
		case !there && state.there && !state.asked:
			c.report(KindLost, "topic %s was created and is gone", name)
		case there && end < state.acknowledged:
			c.report(KindShrunk, "topic %s ends at %d; %d records were acknowledged", name, end, state.acknowledged)
		case there && end > state.sent:
			c.report(KindForeign, "topic %s ends at %d; %d records were sent since it was created", name, end, state.sent)
		}
		if !there {
			*state = topicState{}
		}
		state.there, state.asked = there, false
	}
	for _, name := range sortedKeys(found) {
		if s.known[name] == nil {
			c.report(KindForeign, "topic %s was created by nobody", name)
		}
	}
	return c.anomalies
}
