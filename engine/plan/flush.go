package plan

// Flush is what decides how to make written bytes durable.
type Flush struct {
	Logs  int // logs that want their bytes durable now
	Files int // files of those logs with completed writes that no flush covers
	// FilesMax is up to how many files are flushed one by one (FilesFlushMax).
	FilesMax int
}

// Way is one way to flush.
type Way uint8

const (
	// None: nothing to flush.
	None Way = iota
	// EachFile: fdatasync of each file, side by side.
	EachFile
	// Everything: one syncfs with one fdatasync behind it (rule 14). Measured: a
	// flush per file makes 384 logs 20 times slower than the device allows, because each
	// of them is a flush of the whole device.
	Everything
)

// Choose decides.
func (f Flush) Choose() Way {
	switch {
	case f.Logs == 0 || f.Files == 0:
		return None
	case f.Files <= f.FilesMax:
		return EachFile
	}
	return Everything
}

// Lazy is what decides when a relaxed log (flush.messages > 1) is flushed.
type Lazy struct {
	Records       int64 // written and not durable
	FlushMessages int64
	AgeMillis     int64 // since the first of them was written
	FlushMillis   int64 // 0: never by time
	Wanted        bool  // a roll, a close, a start offset that must not pass it, or memory needs it
}

// Due decides.
func (l Lazy) Due() bool {
	return l.Records > 0 &&
		(l.Wanted || l.Records >= l.FlushMessages || l.FlushMillis > 0 && l.AgeMillis >= l.FlushMillis)
}
