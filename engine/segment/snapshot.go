package segment

const snapshotVersion = 1

// Snapshot is the side state of a log's replica (producer ids and the like) as
// of one offset. The engine does not look into State.
//
//	8 B  offset: all batches below are in it
//	     state, to the end
type Snapshot struct {
	Offset int64
	State  []byte
}

// Encode returns the file.
func (s *Snapshot) Encode() []byte {
	body := make([]byte, 0, 8+len(s.State))
	body = appendInt64(body, s.Offset)
	body = append(body, s.State...)
	return AppendStored(nil, KindSnapshot, snapshotVersion, body)
}

// DecodeSnapshot reads what Encode wrote; State is a slice of file. The error
// is ErrNewerFormat or a *CorruptError.
func DecodeSnapshot(file []byte) (*Snapshot, error) {
	c, err := openStored(file, KindSnapshot, snapshotVersion)
	if err != nil {
		return nil, err
	}
	return decodeSnapshot(&c)
}

func decodeSnapshot(c *cursor) (*Snapshot, error) {
	s := &Snapshot{Offset: c.int64("offset")}
	if c.err == nil && s.Offset < 0 {
		c.fail("negative offset")
	}
	s.State = c.take(len(c.body) - c.at)
	if c.err != nil {
		return nil, c.err
	}
	if c.trace != nil {
		c.note("state of the replica", len(s.State), "")
	}
	return s, nil
}
