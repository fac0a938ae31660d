package kafka

import (
	"math"
	"math/rand/v2"
	"sync"

	"ringlog/broker"
	"ringlog/frontend/kafka/fetchsession"
	"ringlog/meta"
)

const (
	// fetchSessionsDefault is max.incremental.fetch.session.cache.slots of Kafka.
	fetchSessionsDefault = 1000
	// fetchSessionPartitionsMax bounds the partitions of all sessions together: some 150 MB.
	fetchSessionPartitionsMax = 1_000_000
)

// fetchSessions are the sessions of all connections. What happens under the lock is bounded by the
// partitions of one session and waits for nobody, so that a shard's thread may take it.
type fetchSessions struct {
	mu    sync.Mutex
	cache *fetchsession.Cache
}

func newFetchSessions(sessionsMax int) fetchSessions {
	return fetchSessions{cache: fetchsession.New(fetchsession.Options{SessionsMax: sessionsMax, PartitionsMax: fetchSessionPartitionsMax})}
}

// FetchSessions describes the fetch sessions of all connections.
func (p *Protocol) FetchSessions() fetchsession.Status {
	p.sessions.mu.Lock()
	defer p.sessions.mu.Unlock()
	return p.sessions.cache.Status()
}

// sessionPartitionBytes is what a partition of a session costs each fetch that goes on with it.
const sessionPartitionBytes = 384

// sessionBytes is what a fetch that goes on with a session will hold for what that has.
func (p *Protocol) sessionBytes(id int32) int64 {
	p.sessions.mu.Lock()
	defer p.sessions.mu.Unlock()
	return int64(p.sessions.cache.Partitions(id)) * sessionPartitionBytes
}

// fetchSession is what one Fetch has to do with sessions.
type fetchSession struct {
	id, epoch int32 // as the request has them; id is then the one to answer with
	// wishes and forgotten are scratch: the partitions that the request names.
	wishes    []fetchsession.Wish
	forgotten []fetchsession.Partition

	// open is the session whose partitions are fetched, nil without one; it is at expected
	// unless another request has begun meanwhile. slots has the slot of each part.
	open     *fetchsession.Session
	expected int32
	slots    []int32
	// omitted says for each part that the client knows all there is to tell; empty without
	// a session.
	omitted []bool
	name    []byte // scratch
}

// incremental reports whether the request goes on with a session.
func (s *fetchSession) incremental() bool {
	return s.epoch != fetchSessionEpochFull && s.epoch != fetchSessionEpochFinal
}

// reset readies the call for its next use, and keeps its scratch.
func (s *fetchSession) reset() {
	clear(s.wishes)
	clear(s.forgotten)
	if max(cap(s.wishes), cap(s.forgotten), cap(s.slots)) > topicsPooledMax {
		s.wishes, s.forgotten, s.slots, s.omitted = nil, nil, nil, nil
	}
	s.id, s.epoch, s.open, s.expected = 0, fetchSessionEpochFinal, nil, 0
	s.wishes, s.forgotten, s.slots, s.omitted = s.wishes[:0], s.forgotten[:0], s.slots[:0], s.omitted[:0]
}

// openSession makes the partitions of the request's session those that are fetched, if it
// goes on with one.
func (c *fetchCall) openSession() error {
	s, sessions := &c.inSession, &c.session.protocol.sessions
	if c.version < 7 || !s.incremental() {
		if c.version >= 7 && s.id != 0 { // it starts over, or is done
			sessions.mu.Lock()
			sessions.cache.End(s.id)
			sessions.mu.Unlock()
		}
		s.id = 0
		return nil
	}
	c.collectWishes()
	now := c.session.protocol.broker.Now()
	sessions.mu.Lock()
	open, err := sessions.cache.Begin(now, s.id, s.epoch, c.version >= 13, s.wishes, s.forgotten)
	if open != nil {
		s.open, s.expected = open, open.Epoch()
		s.wishes = s.wishes[:0]
		for slot, ok := open.First(); ok; slot, ok = open.Next(slot) {
			s.slots = append(s.slots, slot)
			s.wishes = append(s.wishes, *open.Wish(slot))
		}
	}
	sessions.mu.Unlock()
	if open == nil {
		s.id = 0
		return err // nil when the request has ended its session
	}
	c.fetchWishes()
	return nil
}

// collectWishes notes what the request asks for in the session's terms.
func (c *fetchCall) collectWishes() {
	s := &c.inSession
	for i := range c.topics {
		span := &c.topics[i]
		for at := span.start; at < span.end; at++ {
			part := &c.fetch.Parts[at]
			s.wishes = append(s.wishes, fetchsession.Wish{
				Partition: fetchsession.Partition{TopicID: span.id, Topic: span.name, Number: part.Partition},
				Offset:    part.Offset, LeaderEpoch: part.LeaderEpoch, LastFetchedEpoch: part.LastFetchedEpoch,
				BytesMax: int32(min(part.BytesMax, math.MaxInt32)),
			})
		}
	}
}

// fetchWishes replaces the parts of the fetch by those of the session.
func (c *fetchCall) fetchWishes() {
	clear(c.fetch.Parts)
	clear(c.topics)
	c.fetch.Parts, c.topics, c.compareEpochs = c.fetch.Parts[:0], c.topics[:0], false
	var topic *broker.Topic
	var err error
	var last *topicSpan
	for i := range c.inSession.wishes {
		wish := &c.inSession.wishes[i]
		if last == nil || last.id != meta.TopicID(wish.TopicID) || last.name != wish.Topic {
			topic, err = c.findTopic(wish)
			c.topics = append(c.topics, topicSpan{name: wish.Topic, id: wish.TopicID, start: i})
			last = &c.topics[len(c.topics)-1]
		}
		part := c.fetch.Add()
		part.Topic, part.Err = topic, err
		part.Partition, part.Offset, part.BytesMax = wish.Number, wish.Offset, int(wish.BytesMax)
		part.LeaderEpoch, part.LastFetchedEpoch = wish.LeaderEpoch, wish.LastFetchedEpoch
		c.compareEpochs = c.compareEpochs || wish.LastFetchedEpoch >= 0
		last.end = i + 1
	}
}

func (c *fetchCall) findTopic(wish *fetchsession.Wish) (*broker.Topic, error) {
	b := c.session.protocol.broker
	if c.version >= 13 {
		return b.TopicByID(wish.TopicID)
	}
	c.inSession.name = append(c.inSession.name[:0], wish.Topic...)
	return b.Topic(c.inSession.name)
}

// answerSession finds out which session the answer names and which parts it leaves out. A full
// fetch makes a session here, where it is known what its client is told.
func (c *fetchCall) answerSession() error {
	s, sessions := &c.inSession, &c.session.protocol.sessions
	if c.version < 7 || c.refused != nil || c.replicaID >= 0 {
		s.id = 0
		return nil
	}
	full := s.epoch == fetchSessionEpochFull
	if full {
		c.collectWishes()
	}
	sessions.mu.Lock()
	defer sessions.mu.Unlock()
	switch {
	case full:
		s.open = sessions.cache.Create(c.session.protocol.broker.Now(), 1+rand.Int32N(math.MaxInt32), c.version >= 13, s.wishes)
		if s.open == nil {
			return nil // there is no place: the client goes on without
		}
		s.id = s.open.ID
		for i := range s.wishes {
			if slot, ok := s.open.Find(&s.wishes[i].Partition); ok {
				s.open.Answer(slot, toldOf(&c.fetch.Parts[i]))
			}
		}
	case s.open == nil:
	case s.open.Epoch() != s.expected:
		s.id = 0
		return errFetchSessionEpoch
	default:
		for i, slot := range s.slots {
			s.omitted = append(s.omitted, !s.open.Answer(slot, toldOf(&c.fetch.Parts[i])))
		}
	}
	return nil
}

// toldOf is what an answer could say of a part.
func toldOf(part *broker.FetchPart) fetchsession.Told {
	return fetchsession.Told{HighWatermark: part.HighWatermark, Start: part.Start, Bytes: part.Bytes, Failed: part.Err != nil, Diverges: part.Diverges}
}

// omits reports whether the answer leaves a part out.
func (c *fetchCall) omits(at int) bool {
	return len(c.inSession.omitted) > 0 && c.inSession.omitted[at]
}

// shown counts the parts of a topic that the answer has.
func (c *fetchCall) shown(span *topicSpan) int {
	count := span.end - span.start
	for at := span.start; at < span.end; at++ {
		if c.omits(at) {
			count--
		}
	}
	return count
}

// topicsShown counts the topics of which the answer has any part. (A topic that was asked for
// without one is answered without one; a session has none such.)
func (c *fetchCall) topicsShown() int {
	count := 0
	for i := range c.topics {
		if !c.omitsTopic(&c.topics[i]) {
			count++
		}
	}
	return count
}

// omitsTopic reports whether the answer leaves a topic out.
func (c *fetchCall) omitsTopic(span *topicSpan) bool {
	return len(c.inSession.omitted) > 0 && c.shown(span) == 0
}
