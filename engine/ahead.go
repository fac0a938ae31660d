package engine

// aheadMax is how many messages are looked at together before they are handled.
const aheadMax = 16

// lookAhead reads what the next messages will need, of all of them before any is handled.
//
// With ten thousand logs whatever an append needs has left the caches since the log's last
// one: some twenty lines of the Log, its last chunk, its segment and index, each found
// through the one before. Handled one by one, each append waits for each of them in turn. Read in
// passes, the loads of a pass do not depend on each other, and the processor has them under
// way together.
func (s *shard) lookAhead(messages []message) {
	if len(s.logs) < aheadLogsMin || len(s.arrivals) > 0 {
		return
	}
	var logs [aheadMax]*Log
	n := 0
	for i := range messages {
		g := messages[i].group
		if g == nil {
			break // behind it a log may be another shard's
		}
		if len(g.Appends) > 0 && int(g.Appends[0].shard) == s.number {
			logs[n] = g.Appends[0].Log
			n++
		}
	}
	read := int64(0)
	for _, l := range logs[:n] {
		read += l.readAhead()
	}
	for _, l := range logs[:n] {
		if c := l.tail.last(); c != nil {
			read += c.dataEnd
		}
		if f := l.active; f != nil {
			read += f.prepared + f.Bytes
			if x := f.index; x != nil {
				read += x.NextOffset + x.MaxTimestampOffset
			}
		}
	}
	s.ahead = read // so that the loads are not optimised away
}

// aheadLogsMin is from how many logs on the second look is dearer than the first one.
const aheadLogsMin = 512

// readAhead reads a field of each cache line of the log that an append touches.
func (l *Log) readAhead() int64 {
	return l.published.next.Load() + l.config.SegmentBytes + int64(l.gen) + int64(l.epochLead) +
		l.cut.offset + int64(l.number) + l.durable + l.flushed.offset + l.completed.offset + l.next.offset + l.next.batches +
		l.tail.size + l.writes.submitted.offset + int64(l.writes.count) + l.space.lookAt +
		l.journaled.offset + l.entriesDurable + l.side.bytes + int64(l.jobs) + l.dirtyCounted
}
