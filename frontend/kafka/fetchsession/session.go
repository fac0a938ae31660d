package fetchsession

// Partition names a partition, its topic by id or by name as the session does; the other
// field is empty.
type Partition struct {
	TopicID [16]byte
	Topic   string
	Number  int32
}

// Wish is what a client wants of a partition, as its request has it.
type Wish struct {
	Partition
	Offset           int64
	LeaderEpoch      int32
	LastFetchedEpoch int32
	BytesMax         int32
}

// Told is what an answer could say of a partition.
type Told struct {
	HighWatermark int64
	Start         int64
	Bytes         int  // of records
	Failed        bool // there is an error code
	Diverges      bool // the client has to truncate
}

// none is the slot of no partition.
const none int32 = -1

// unknown is a position that no client was told.
const unknown int64 = -1

// Session is what one client fetches. It belongs to its Cache's owner, also after it was
// evicted: a request that has begun is answered.
type Session struct {
	ID int32

	// epoch is that of the next request.
	epoch int32
	byID  bool // topics are named by id
	// created and used are times in milliseconds.
	created, used int64
	place         int // in Cache.sessions

	// slots hold the partitions, linked in the order in which they are to be read; those that
	// gave records last are behind the others, so that all get their turn.
	slots      []slot
	unused     []int32
	head, tail int32
	at         map[Partition]int32
}

// slot is one partition and what the client was told of it last.
type slot struct {
	Wish
	highWatermark int64
	start         int64
	previous      int32
	next          int32
}

// Len is the number of partitions.
func (s *Session) Len() int { return len(s.at) }

// Epoch is the epoch that the next request must have; it tells whether another one has
// begun meanwhile.
func (s *Session) Epoch() int32 { return s.epoch }

// First returns the slot of the first partition to read, and Next of the one behind another;
// ok is false at the end.
func (s *Session) First() (slot int32, ok bool) { return s.head, s.head != none }

// Next returns the slot behind another one.
func (s *Session) Next(slot int32) (next int32, ok bool) {
	next = s.slots[slot].next
	return next, next != none
}

// Wish returns what is wanted of the partition in a slot.
func (s *Session) Wish(slot int32) *Wish { return &s.slots[slot].Wish }

// Find returns the slot of a partition.
func (s *Session) Find(p *Partition) (slot int32, ok bool) {
	slot, ok = s.at[*p]
	return slot, ok
}

// Answer takes note of what can be told of a partition and reports whether it must be:
// there are records, a position has moved since the client heard of it, or there is an error. One
// that had an error is told again when that is over.
func (s *Session) Answer(number int32, told Told) (tell bool) {
	p := &s.slots[number]
	tell = told.Bytes > 0 || told.Failed || told.Diverges || told.HighWatermark != p.highWatermark || told.Start != p.start
	p.highWatermark, p.start = told.HighWatermark, told.Start
	if told.Failed {
		p.highWatermark = unknown
	}
	if told.Bytes > 0 {
		s.unlink(number)
		s.link(number)
	}
	return tell
}

// set adds a partition, or changes what is wanted of it.
func (s *Session) set(wish *Wish) {
	if number, there := s.at[wish.Partition]; there {
		s.slots[number].Wish = *wish
		return
	}
	var number int32
	if n := len(s.unused); n > 0 {
		number, s.unused = s.unused[n-1], s.unused[:n-1]
	} else {
		number = int32(len(s.slots))
		s.slots = append(s.slots, slot{})
	}
	s.slots[number] = slot{Wish: *wish, highWatermark: unknown, start: unknown}
	s.at[wish.Partition] = number
	s.link(number)
}

func (s *Session) forget(p *Partition) {
	number, there := s.at[*p]
	if !there {
		return
	}
	s.unlink(number)
	delete(s.at, *p)
	s.slots[number] = slot{}
	s.unused = append(s.unused, number)
}

// link puts a slot behind all others.
func (s *Session) link(number int32) {
	p := &s.slots[number]
	p.previous, p.next = s.tail, none
	if s.tail == none {
		s.head = number
	} else {
		s.slots[s.tail].next = number
	}
	s.tail = number
}

func (s *Session) unlink(number int32) {
	p := &s.slots[number]
	if p.previous == none {
		s.head = p.next
	} else {
		s.slots[p.previous].next = p.next
	}
	if p.next == none {
		s.tail = p.previous
	} else {
		s.slots[p.next].previous = p.previous
	}
}
