package segment

const checkpointVersion = 1

// Checkpoint is what one shard knew to be durable at one moment: where the
// recovery of each log begins, and how far leftovers can lie.
//
//	4 B  number of logs, then of each:
//	       16 B log id · 8 B generation · 8 B base offset of the segment
//	        8 B position in it · 8 B offset at that position · 8 B durable end
//	        8 B limit: the position that no write to that segment may pass
type Checkpoint struct {
	Logs []CheckpointLog
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
}

const checkpointLogBytes = 16 + 6*8

// Encode returns the file.
func (p *Checkpoint) Encode() []byte {
	body := make([]byte, 0, 4+len(p.Logs)*checkpointLogBytes)
	body = appendCount(body, len(p.Logs))
	for i := range p.Logs {
		l := &p.Logs[i]
		body = append(body, l.LogID[:]...)
		body = appendInt64(body, int64(l.Gen))
		body = appendInt64(body, l.Segment)
		body = appendInt64(body, l.Position)
		body = appendInt64(body, l.Offset)
		body = appendInt64(body, l.Durable)
		body = appendInt64(body, l.Limit)
	}
	return AppendStored(nil, KindCheckpoint, checkpointVersion, body)
}

// DecodeCheckpoint reads what Encode wrote. The error is ErrNewerFormat or a
// *CorruptError.
func DecodeCheckpoint(file []byte) (*Checkpoint, error) {
	body, _, err := ParseStored(file, KindCheckpoint, checkpointVersion)
	if err != nil {
		return nil, err
	}
	c := cursor{kind: KindCheckpoint, body: body}
	p := &Checkpoint{Logs: make([]CheckpointLog, c.count(checkpointLogBytes))}
	for i := range p.Logs {
		l := &p.Logs[i]
		copy(l.LogID[:], c.take(16))
		l.Gen = uint64(c.int64())
		l.Segment = c.int64()
		l.Position = c.int64()
		l.Offset = c.int64()
		l.Durable = c.int64()
		l.Limit = c.int64()
		if l.Segment < 0 || l.Position < 0 || l.Offset < l.Segment || l.Durable < l.Offset || l.Limit < l.Position {
			c.fail("positions contradict each other")
		}
	}
	if err := c.end(); err != nil {
		return nil, err
	}
	return p, nil
}
