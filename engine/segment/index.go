package segment

import (
	"encoding/binary"
	"fmt"
	"math"
	"sort"
)

const indexVersion = 1

// RelativeOffsetMax is the largest distance from a segment's base offset that
// an index entry can hold; a segment is rolled before it is passed. Kafka's
// limit, so that its tools agree.
const RelativeOffsetMax = math.MaxInt32

// SegmentBytesMax is the largest position that an index entry can hold.
const SegmentBytesMax = math.MaxUint32

// Index leads from an offset or a timestamp to a position in one segment. It has
// one entry for about every index.interval.bytes of batches, and is exact about
// what it covers. On disk it is two files.
//
// The offset index (.index):
//
//	8 B  base offset of the segment
//	8 B  covered position: batches below it are in the index
//	8 B  offset at that position
//	8 B  largest timestamp of those batches, -1 when there are none
//	8 B  base offset of the batch that has it
//	4 B  number of entries, then of each: 4 B relative offset · 4 B position
//
// The time index (.timeindex), with an entry for each of the offset index:
//
//	8 B  base offset of the segment
//	8 B  covered position
//	4 B  number of entries, then of each: 8 B timestamp · 4 B relative offset
//
// An entry's timestamp is the largest one in the segment *before* the batch of
// the entry, so that everything before the last entry with a timestamp below T
// is older than T. (Kafka stores the largest up to and with the batch; then a
// search has to begin one entry earlier.)
type Index struct {
	BaseOffset         int64
	Position           int64 // covered up to here
	NextOffset         int64 // the offset there
	MaxTimestamp       int64
	MaxTimestampOffset int64

	entries    []entry
	sinceEntry int64 // bytes since the batch of the last entry
}

// entry is one batch that the index can find. No pointers: the collector does not look at it.
type entry struct {
	before   int64 // largest timestamp of earlier batches, -1 when there are none
	relative uint32
	position uint32
}

const (
	indexEntryBytes     = 8
	timeIndexEntryBytes = 12
)

// Reset empties the index for a segment that begins at baseOffset.
func (x *Index) Reset(baseOffset int64) {
	*x = Index{
		BaseOffset: baseOffset, NextOffset: baseOffset,
		MaxTimestamp: -1, MaxTimestampOffset: -1,
		entries: x.entries[:0],
	}
}

// Add takes the next batch of the segment: it begins at x.Position. interval
// is index.interval.bytes.
func (x *Index) Add(baseOffset, nextOffset, maxTimestamp int64, batchBytes int, interval int64) {
	if len(x.entries) > 0 && x.sinceEntry >= interval || len(x.entries) == 0 && x.Position+int64(batchBytes) > interval && x.Position > 0 {
		x.entries = append(x.entries, entry{
			before: x.MaxTimestamp, relative: uint32(baseOffset - x.BaseOffset), position: uint32(x.Position),
		})
		x.sinceEntry = 0
	}
	x.sinceEntry += int64(batchBytes)
	x.Position += int64(batchBytes)
	x.NextOffset = nextOffset
	if maxTimestamp > x.MaxTimestamp {
		x.MaxTimestamp, x.MaxTimestampOffset = maxTimestamp, baseOffset
	}
}

// Entries is the number of entries.
func (x *Index) Entries() int { return len(x.entries) }

// Entry returns the i-th entry: the batch that it finds, and the largest timestamp of those
// before it, -1 when there are none.
func (x *Index) Entry(i int) (position, baseOffset, maxTimestampBefore int64) {
	position, baseOffset = x.at(i)
	return position, baseOffset, x.entries[i].before
}

// Behind returns the first indexed batch whose place lies behind position; ok is false when there is none.
func (x *Index) Behind(position int64) (at, baseOffset int64, ok bool) {
	n := sort.Search(len(x.entries), func(i int) bool { return int64(x.entries[i].position) > position })
	if n == len(x.entries) {
		return 0, 0, false
	}
	at, baseOffset = x.at(n)
	return at, baseOffset, true
}

// MemoryBytes is what the entries take.
func (x *Index) MemoryBytes() int64 { return int64(cap(x.entries)) * 16 }

// Find returns the position and base offset of the last indexed batch at or
// below offset; the start of the segment when there is none.
func (x *Index) Find(offset int64) (position, baseOffset int64) {
	n := sort.Search(len(x.entries), func(i int) bool {
		return x.BaseOffset+int64(x.entries[i].relative) > offset
	})
	return x.at(n - 1)
}

// FindPosition is Find for a position instead of an offset.
func (x *Index) FindPosition(position int64) (at, baseOffset int64) {
	n := sort.Search(len(x.entries), func(i int) bool { return int64(x.entries[i].position) > position })
	return x.at(n - 1)
}

// FindTime returns the last indexed batch before which every timestamp is
// below millis; the start of the segment when there is none.
func (x *Index) FindTime(millis int64) (position, baseOffset int64) {
	n := sort.Search(len(x.entries), func(i int) bool { return x.entries[i].before >= millis })
	return x.at(n - 1)
}

func (x *Index) at(i int) (position, baseOffset int64) {
	if i < 0 {
		return 0, x.BaseOffset
	}
	return int64(x.entries[i].position), x.BaseOffset + int64(x.entries[i].relative)
}

// Encode returns the two files, covering what x covers.
func (x *Index) Encode() (index, timeIndex []byte) {
	body := make([]byte, 0, 64+len(x.entries)*timeIndexEntryBytes)
	body = x.appendCover(body)
	for _, e := range x.entries {
		body = binary.LittleEndian.AppendUint32(body, e.relative)
		body = binary.LittleEndian.AppendUint32(body, e.position)
	}
	index = AppendStored(nil, KindIndex, indexVersion, body)

	body = x.appendCover(body[:0])
	for _, e := range x.entries {
		body = appendInt64(body, e.before)
		body = binary.LittleEndian.AppendUint32(body, e.relative)
	}
	return index, AppendStored(nil, KindTimeIndex, indexVersion, body)
}

// appendCover appends the fields that both files begin with, and the number of entries.
func (x *Index) appendCover(body []byte) []byte {
	body = appendInt64(body, x.BaseOffset)
	body = appendInt64(body, x.Position)
	body = appendInt64(body, x.NextOffset)
	body = appendInt64(body, x.MaxTimestamp)
	body = appendInt64(body, x.MaxTimestampOffset)
	return appendCount(body, len(x.entries))
}

// DecodeIndex reads what Encode wrote for the segment at baseOffset. The error
// is ErrNewerFormat or a *CorruptError.
func DecodeIndex(baseOffset int64, index, timeIndex []byte) (*Index, error) {
	x, err := decodeFile(index, KindIndex)
	if err != nil {
		return nil, err
	}
	times, err := decodeFile(timeIndex, KindTimeIndex)
	if err != nil {
		return nil, err
	}
	n := min(len(x.entries), len(times.entries))
	for i := range n {
		if x.entries[i].relative != times.entries[i].relative {
			return nil, &CorruptError{File: KindTimeIndex.String(), Reason: fmt.Sprintf("entry %d is of another offset than in the offset index", i)}
		}
		x.entries[i].before = times.entries[i].before
	}
	entries := x.entries[:n]
	if times.Position < x.Position {
		x = times
	}
	x.entries = entries
	if reason := x.nonsense(baseOffset); reason != "" {
		return nil, &CorruptError{File: KindIndex.String(), Reason: reason}
	}
	if n > 0 {
		x.sinceEntry = x.Position - int64(x.entries[n-1].position)
	}
	return x, nil
}

// decodeFile reads one of the two files.
func decodeFile(file []byte, kind Kind) (*Index, error) {
	c, err := openStored(file, kind, indexVersion)
	if err != nil {
		return nil, err
	}
	return decodeHalf(&c)
}

// decodeHalf reads what one of the two files has of an index.
func decodeHalf(c *cursor) (*Index, error) {
	x := &Index{BaseOffset: c.int64("base offset"), Position: c.int64("covered position"), NextOffset: c.int64("offset there"),
		MaxTimestamp: c.millis("largest timestamp"), MaxTimestampOffset: c.int64("offset of its batch")}
	if c.kind == KindTimeIndex {
		x.entries = make([]entry, c.count("entries", timeIndexEntryBytes))
		for i := range x.entries {
			c.element("entry", i)
			x.entries[i] = entry{before: c.millis("timestamp before"), relative: c.uint32("relative offset")}
		}
	} else {
		x.entries = make([]entry, c.count("entries", indexEntryBytes))
		for i := range x.entries {
			c.element("entry", i)
			x.entries[i] = entry{relative: c.uint32("relative offset"), position: c.uint32("position")}
		}
	}
	if err := c.end(); err != nil {
		return nil, err
	}
	return x, nil
}

// nonsense says what no writer would have written, or "".
func (x *Index) nonsense(baseOffset int64) string {
	if x.BaseOffset != baseOffset {
		return fmt.Sprintf("of the segment at offset %d, not %d", x.BaseOffset, baseOffset)
	}
	if x.NextOffset < baseOffset || x.Position < 0 || x.Position > SegmentBytesMax {
		return "covers an impossible range"
	}
	for i, e := range x.entries {
		if int64(e.position) >= x.Position || baseOffset+int64(e.relative) >= x.NextOffset || e.before > x.MaxTimestamp {
			return fmt.Sprintf("entry %d lies outside", i)
		}
		if i > 0 && (e.position <= x.entries[i-1].position || e.relative <= x.entries[i-1].relative || e.before < x.entries[i-1].before) {
			return fmt.Sprintf("entry %d does not ascend", i)
		}
	}
	return ""
}
