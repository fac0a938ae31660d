package segment

const checkpointVersion = 2

// Checkpoint is what one shard knew to be durable at one moment: where the
// recovery of each log begins, how far leftovers can lie, and where its journal
// begins.
//
//	16 B  store id · 8 B run
//	 8 B  journal's first sequence still needed · 8 B its virtual position in the ring
//	 8 B  highest sequence known to be flushed
//	 4 B  number of logs, then of each:
//	        16 B log id · 8 B generation · 8 B base offset of the segment
//	         8 B position in it · 8 B offset at that position · 8 B durable end
//	         8 B limit: the position that no write to that segment may pass
//	         1 B flags: bit 0 unproven · 8 B epochs known below this offset
//
// Version 1 began with the number of logs and had no flags; it is read as zeros.
type Checkpoint struct {
	// Store is the secret of the data directory that every frame of the journal
	// bears.
	Store [16]byte
	// Run is that of the frames that may lie in the ring. It is durable here before
	// the run's first frame is written.
	Run uint64
	// From is the sequence of the first frame that some segment still needs, and
	// FromPosition where it begins: a virtual position, of which the ring has the
	// remainder by its size.
	From         uint64
	FromPosition int64
	// Flushed is the highest sequence known to be flushed: a frame from From up to
	// it that is missing is corruption.
	Flushed uint64
	Logs    []CheckpointLog
}

// CheckpointLog is one log of a Checkpoint.
type CheckpointLog struct {
	LogID    [16]byte
	Gen      uint64
	Segment  int64
	Position int64 // a batch boundary; everything below it was durable
	Offset   int64 // of the batch that begins at Position
	Durable  int64 // the log's durable end; an end below it is corruption, never a torn tail
	Limit    int64
	// Unproven: a damaged frame of the journal may have held the log's last batches.
	// Such a log is fenced when it is opened.
	Unproven bool
	// EpochsBelow: the manifest has every leader epoch of the batches below this offset. A
	// batch's own word on its epoch is outside its checksum.
	EpochsBelow int64
}

const (
	checkpointHeadBytes = 16 + 4*8
	checkpointLogBytes1 = 16 + 6*8                    // of version 1
	checkpointLogBytes  = checkpointLogBytes1 + 1 + 8 // flags and epochs
	checkpointUnproven  = 1 << 0
)

// Encode returns the file.
func (p *Checkpoint) Encode() []byte {
	body := make([]byte, 0, checkpointHeadBytes+4+len(p.Logs)*checkpointLogBytes)
	body = append(body, p.Store[:]...)
	body = appendInt64(body, int64(p.Run))
	body = appendInt64(body, int64(p.From))
	body = appendInt64(body, p.FromPosition)
	body = appendInt64(body, int64(p.Flushed))
	body = appendCount(body, len(p.Logs))
	for i := range p.Logs {
		body = p.Logs[i].append(body)
	}
	return AppendStored(nil, KindCheckpoint, checkpointVersion, body)
}

func (l *CheckpointLog) append(body []byte) []byte {
	body = append(body, l.LogID[:]...)
	body = appendInt64(body, int64(l.Gen))
	body = appendInt64(body, l.Segment)
	body = appendInt64(body, l.Position)
	body = appendInt64(body, l.Offset)
	body = appendInt64(body, l.Durable)
	body = appendInt64(body, l.Limit)
	flags := byte(0)
	if l.Unproven {
		flags |= checkpointUnproven
	}
	return appendInt64(append(body, flags), l.EpochsBelow)
}

// DecodeCheckpoint reads what Encode wrote, and version 1. The error is
// ErrNewerFormat or a *CorruptError.
func DecodeCheckpoint(file []byte) (*Checkpoint, error) {
	c, err := openStored(file, KindCheckpoint, checkpointVersion)
	if err != nil {
		return nil, err
	}
	return decodeCheckpoint(&c)
}

func decodeCheckpoint(c *cursor) (*Checkpoint, error) {
	p, logBytes := new(Checkpoint), checkpointLogBytes1
	if c.version > 1 {
		logBytes = checkpointLogBytes
		p.Store = c.id("store id")
		p.Run = uint64(c.int64("run"))
		p.From = uint64(c.int64("journal from"))
		p.FromPosition = c.int64("journal position")
		p.Flushed = uint64(c.int64("journal flushed"))
		if p.FromPosition < 0 {
			c.fail("the journal begins at a negative position")
		}
	}
	p.Logs = make([]CheckpointLog, c.count("logs", logBytes))
	for i := range p.Logs {
		l := &p.Logs[i]
		c.element("log", i)
		l.take(c)
		if c.version > 1 {
			flags := c.uint8("flags")
			if flags&^checkpointUnproven != 0 {
				c.fail("unknown flags")
			}
			l.Unproven = flags&checkpointUnproven != 0
			l.EpochsBelow = c.int64("epochs below")
		}
	}
	if err := c.end(); err != nil {
		return nil, err
	}
	return p, nil
}

// take reads the fields that every version has.
func (l *CheckpointLog) take(c *cursor) {
	l.LogID = c.id("log id")
	l.Gen = uint64(c.int64("generation"))
	l.Segment = c.int64("segment")
	l.Position = c.int64("position")
	l.Offset = c.int64("offset")
	l.Durable = c.int64("durable end")
	l.Limit = c.int64("limit")
	if l.Segment < 0 || l.Position < 0 || l.Offset < l.Segment || l.Durable < l.Offset || l.Limit < l.Position {
		c.fail("positions contradict each other")
	}
}
