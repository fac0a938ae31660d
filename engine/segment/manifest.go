package segment

import (
	"encoding/binary"
	"fmt"
)

const (
	manifestVersion = 2
	// manifestVersionPlain is from before compaction: no segment was written anew.
	manifestVersionPlain = 1
)

// State says whether a log is in the middle of something that a restart must finish.
type State uint8

const (
	// Normal: nothing to finish.
	Normal State = iota
	// Cutting: everything at and above Manifest.Cut is to be destroyed.
	Cutting
)

// Manifest is the content of log.meta: which files are the log. A segment file
// that it does not name is not part of the log, whatever it holds.
//
//	16 B  log id
//	 8 B  generation          raised by every truncation
//	 8 B  start offset
//	 1 B  state               0 normal, 1 cutting
//	 8 B  cut offset          of cutting, else 0
//	 8 B  cleaned offset      no key has two records below it
//	 2 B  label length,       then the label in UTF-8
//	 4 B  number of segments, then of each, in order:
//	        8 B base offset · 1 B sealed (0, 1) · 8 B bytes · 8 B next offset
//	        8 B largest timestamp · 8 B offset of its batch · 8 B created · 8 B last append
//	        4 B pass · 8 B horizon
//	 4 B  number of epochs,   then of each, in order:
//	        4 B leader epoch · 8 B its first offset
//
// Timestamps are in Unix milliseconds. Version 1 has neither cleaned offset, pass nor
// horizon; it is read as if they were 0.
type Manifest struct {
	LogID    [16]byte
	Gen      uint64
	Start    int64
	State    State
	Cut      int64
	Cleaned  int64 // everything below was compacted; 0 for a log that never was
	Label    string
	Segments []Summary // ascending base offsets; at least one; all but the last few are sealed
	Epochs   []Epoch   // ascending epochs and offsets
}

// Summary describes one segment.
type Summary struct {
	BaseOffset int64
	// Sealed: all its bytes are durable and the fields down to MaxTimestampOffset
	// are final. Recovery reads the segments that are not.
	Sealed             bool
	Bytes              int64
	NextOffset         int64
	MaxTimestamp       int64 // -1: no batch
	MaxTimestampOffset int64 // base offset of the batch that has it
	CreatedMillis      int64 // broker's clock at the first append
	AppendedMillis     int64 // broker's clock at the last append
	// Pass says how often the file was written by compaction; 0: by appends. It is part of the
	// file's name, so that the file it replaces stays what it is until the manifest forgets it.
	Pass uint32
	// HorizonMillis is when the first tombstones in it may be dropped (KIP-534); 0: there are none
	// that compaction has seen.
	HorizonMillis int64
}

// Name is the name of the segment's file of the kind: LogSuffix, IndexSuffix or TimeIndexSuffix.
func (s *Summary) Name(suffix string) string { return PassName(s.BaseOffset, s.Pass, suffix) }

// Epoch says at which offset a leader epoch began.
type Epoch struct {
	Epoch int32
	Start int64
}

const (
	summaryPlainBytes = 8 + 1 + 8 + 8 + 8 + 8 + 8 + 8 // of version 1
	summaryBytes      = summaryPlainBytes + 4 + 8
	epochBytes        = 4 + 8
)

// LabelBytesMax bounds the label in a manifest; longer ones are cut.
const LabelBytesMax = 300

// Encode returns the file.
func (m *Manifest) Encode() []byte {
	label := m.Label
	if len(label) > LabelBytesMax {
		label = label[:LabelBytesMax]
	}
	body := make([]byte, 0, 64+len(label)+len(m.Segments)*summaryBytes+len(m.Epochs)*epochBytes)
	body = append(body, m.LogID[:]...)
	body = appendInt64(body, int64(m.Gen))
	body = appendInt64(body, m.Start)
	body = append(body, byte(m.State))
	body = appendInt64(body, m.Cut)
	body = appendInt64(body, m.Cleaned)
	body = binary.LittleEndian.AppendUint16(body, uint16(len(label)))
	body = append(body, label...)
	body = appendCount(body, len(m.Segments))
	for i := range m.Segments {
		body = m.Segments[i].append(body)
	}
	body = appendCount(body, len(m.Epochs))
	for _, e := range m.Epochs {
		body = binary.LittleEndian.AppendUint32(body, uint32(e.Epoch))
		body = appendInt64(body, e.Start)
	}
	return AppendStored(nil, KindManifest, manifestVersion, body)
}

func (s *Summary) append(body []byte) []byte {
	body = appendInt64(body, s.BaseOffset)
	sealed := byte(0)
	if s.Sealed {
		sealed = 1
	}
	body = append(body, sealed)
	body = appendInt64(body, s.Bytes)
	body = appendInt64(body, s.NextOffset)
	body = appendInt64(body, s.MaxTimestamp)
	body = appendInt64(body, s.MaxTimestampOffset)
	body = appendInt64(body, s.CreatedMillis)
	body = appendInt64(body, s.AppendedMillis)
	body = binary.LittleEndian.AppendUint32(body, s.Pass)
	return appendInt64(body, s.HorizonMillis)
}

// DecodeManifest reads what Encode wrote and checks that it makes sense. The
// error is ErrNewerFormat or a *CorruptError.
func DecodeManifest(file []byte) (*Manifest, error) {
	c, err := openStored(file, KindManifest, manifestVersion)
	if err != nil {
		return nil, err
	}
	return decodeManifest(&c)
}

func decodeManifest(c *cursor) (*Manifest, error) {
	m := &Manifest{LogID: c.id("log id"), Gen: uint64(c.int64("generation")), Start: c.int64("start offset")}
	m.State = State(c.uint8("state"))
	m.Cut = c.int64("cut offset")
	size := summaryPlainBytes
	if c.version > manifestVersionPlain {
		m.Cleaned = c.int64("cleaned offset")
		size = summaryBytes
	}
	m.Label = c.text("label", int(c.uint16("label length")))
	m.Segments = make([]Summary, c.count("segments", size))
	for i := range m.Segments {
		c.element("segment", i)
		m.Segments[i] = c.summary()
	}
	c.element("", 0)
	m.Epochs = make([]Epoch, c.count("epochs", epochBytes))
	for i := range m.Epochs {
		c.element("epoch", i)
		m.Epochs[i] = Epoch{Epoch: int32(c.uint32("leader epoch")), Start: c.int64("first offset")}
	}
	if err := c.end(); err != nil {
		return nil, err
	}
	if reason := m.nonsense(); reason != "" {
		return nil, &CorruptError{File: KindManifest.String(), Reason: reason}
	}
	return m, nil
}

func (c *cursor) summary() Summary {
	s := Summary{BaseOffset: c.int64("base offset")}
	switch c.uint8("sealed") {
	case 0:
	case 1:
		s.Sealed = true
	default:
		c.fail("sealed is neither 0 nor 1")
	}
	s.Bytes = c.int64("bytes")
	s.NextOffset = c.int64("next offset")
	s.MaxTimestamp = c.millis("largest timestamp")
	s.MaxTimestampOffset = c.int64("offset of its batch")
	s.CreatedMillis = c.millis("created")
	s.AppendedMillis = c.millis("last append")
	if c.version > manifestVersionPlain {
		s.Pass = c.uint32("pass")
		s.HorizonMillis = c.millis("horizon")
	}
	return s
}

// nonsense says what no writer would have written, or "".
func (m *Manifest) nonsense() string {
	if m.State > Cutting {
		return fmt.Sprintf("state %d", m.State)
	}
	if m.Start < 0 {
		return fmt.Sprintf("start offset %d", m.Start)
	}
	if m.Cleaned < 0 {
		return fmt.Sprintf("cleaned offset %d", m.Cleaned)
	}
	if len(m.Segments) == 0 {
		return "no segment"
	}
	open := false
	for i := range m.Segments {
		s := &m.Segments[i]
		if s.BaseOffset < 0 || s.Bytes < 0 {
			return fmt.Sprintf("segment %d begins at offset %d and has %d bytes", i, s.BaseOffset, s.Bytes)
		}
		if s.Sealed && (open || s.NextOffset < s.BaseOffset) {
			return fmt.Sprintf("segment %d is sealed out of turn", i)
		}
		open = open || !s.Sealed
		if i > 0 {
			previous := &m.Segments[i-1]
			if s.BaseOffset <= previous.BaseOffset || previous.Sealed && s.BaseOffset < previous.NextOffset {
				return fmt.Sprintf("segment %d overlaps the one before it", i)
			}
		}
	}
	for i := 1; i < len(m.Epochs); i++ {
		if m.Epochs[i].Epoch <= m.Epochs[i-1].Epoch || m.Epochs[i].Start < m.Epochs[i-1].Start {
			return fmt.Sprintf("epoch %d does not ascend", i)
		}
	}
	return ""
}
