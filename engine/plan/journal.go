package plan

import "time"

const (
	// DirectBytes is from how many waiting bytes on a log is written straight to its
	// segment: about there a write of its own and its flush cost what a share of a
	// journal frame costs, and the second write is saved (measured 2026-11: 4 × 256 KiB
	// reach 2,169 commits/s by the journal and 1,825 by a file and flush each, 4 × 1 MiB
	// 589 and 566).
	DirectBytes = 256 << 10
	// From crowdBytes of all logs together that have no answer, a log with crowdDirectBytes goes
	// direct too, and from four times as many one with a third of it: so much cannot be made durable by
	// a few frames, and one flush for all those segments costs less than writing each byte twice
	// (measured 2026-11, appends/s by journal and direct: 384 × 64 KiB 14,093 and 15,902, 10,000 × 64
	// KiB 11,143 and 18,612, 10,000 × 16 KiB 33,121 and 42,348; but 1,000 × 16 KiB 49,752 and 36,629: in
	// small writes it is their number that counts, not their bytes).
	crowdBytes       = 8 << 20
	crowdDirectBytes = 48 << 10
	// FrameBytesMax bounds a frame, FramesMax the memory for them: frames that are
	// being written together.
	FrameBytesMax = 1 << 20
	FramesMax     = 4
	frameShare    = 8 // of the ring: a frame takes at most one part in so many

	// FilesFlushMax is up to how many files are flushed one by one, side by side: the block
	// layer merges flushes that wait for each other, so a few of them cost two. More
	// files are one syncfs.
	FilesFlushMax = 8
)

// FramePiecesMax bounds the writes that a frame is cut into.
const (
	FramePiecesMax  = FrameBytesMax / framePieceBytes
	framePieceBytes = PieceBytes
)

// FramePieces returns how many writes a frame is cut into, which go out together. Smaller
// ones were tried: where the kernel merges neighbours they reach the device as one all the
// same, and each costs the shard its way through the file system.
func FramePieces(bytes int) int {
	return min(max((bytes+framePieceBytes-1)/framePieceBytes, 1), FramePiecesMax)
}

// JournalBytesMin is the smallest ring that makes sense: its frames are of four blocks.
const JournalBytesMin = 4 * BlockBytes * frameShare

// FrameBytes returns how large a frame of a ring may be.
func FrameBytes(ringBytes int64) int64 {
	return RoundDown(min(ringBytes/frameShare, FrameBytesMax))
}

// Route is what decides the way of a log's waiting bytes to durability.
type Route struct {
	Bytes      int64 // appended and on no way yet
	Unanswered int64 // appended and not answered, of all logs, whatever way they are on
	FrameBytes int64 // of the largest frame
}

// Direct says that they are written to the segment; else they go into a frame.
func (r Route) Direct() bool {
	from := min(DirectBytes, r.FrameBytes/2)
	switch {
	case r.Unanswered >= 4*crowdBytes:
		from = min(from, crowdDirectBytes/3)
	case r.Unanswered >= crowdBytes:
		from = min(from, crowdDirectBytes)
	}
	return r.Bytes >= from
}

// Gather is what decides whether another frame is begun.
type Gather struct {
	Bytes      int64 // that wait for a frame
	InFlight   int   // frames being written
	FrameBytes int64
}

// Start decides: the first frame takes what there is; beside it only a large one
// is worth its trip, and what comes meanwhile gathers.
func (g Gather) Start() bool {
	return g.Bytes > 0 && (g.InFlight == 0 || g.InFlight < FramesMax && g.Bytes >= g.FrameBytes/2)
}

// Shares of the ring, in percent, at which something changes.
const (
	paceFrom = 10 // write-back begins
	trimFrom = 50 // a trim begins
	trimTo   = 20 // and ends
	stopFrom = 80 // appends wait

	// RelaxedFlushAge is how old the journal's entries of relaxed logs become before they are
	// flushed for their own sake: seldom enough to cost nothing.
	RelaxedFlushAge = 100 * time.Millisecond

	// TrimAge is how old the oldest entry becomes before a trim begins anyway: it bounds
	// what an idle shard keeps in memory, and what a start has to merge.
	TrimAge = 10 * time.Second
)

// Ring is how full a journal is.
type Ring struct {
	Bytes int64 // its size
	Used  int64 // from the oldest frame that some segment still needs
	// AgeOfOldest is how long that frame has been needed.
	AgeOfOldest time.Duration
	// Hungry: appends wait for memory that dirty bytes take.
	Hungry bool
}

func (r Ring) percent() int64 { return r.Used * 100 / max(r.Bytes, 1) }

// Full says that appends wait.
func (r Ring) Full() bool { return r.percent() >= stopFrom }

// Trim says how many of the used bytes, oldest first, to get rid of now; 0 is none.
func (r Ring) Trim() int64 {
	switch {
	case r.Used == 0:
		return 0
	case r.AgeOfOldest >= TrimAge:
		return r.Used
	case r.percent() >= trimFrom || r.Hungry:
		return max(r.Used-r.Bytes*trimTo/100, r.Used/2)
	}
	return 0
}

const (
	// backBytesMin is the smallest piece that write-back writes unless a trim needs
	// the rest: small writes beside it are what makes a commit slow (measured: p50 0.59 to
	// 5.4 ms beside unpaced 4 KiB writes, 0.55-0.78 beside paced ones of 32 KiB and more).
	backBytesMin = 32 << 10
	// backShare is the part of the ring that all logs together may let gather for larger pieces.
	backShare = 4
	// paceBurst bounds what a pause lets through at once.
	paceBurst = 10 * time.Millisecond
	paceFloor = 100 << 20 // bytes/s
	paceHurry = 1 << 40
)

// BackBytes returns how much of a log gathers before it is written back. A request costs the
// device about as much as moving 100 KiB (measured: ten of 60 KiB take 430 us, one of 400 KiB
// 150), so few logs wait for pieces as large as a busy log writes, and many for what the ring
// has room for.
func BackBytes(ringBytes int64, logs int) int64 {
	share := ringBytes / backShare / int64(max(logs, 1))
	return RoundDown(min(max(share, backBytesMin), PieceBytes))
}

// Pace is what decides how fast bytes are written back.
type Pace struct {
	Ring        Ring
	JournalRate int64 // bytes/s that entered the journal of late
	Trimming    bool
	Hurry       bool // nobody appends any more
}

// Rate returns bytes/s: nothing while the ring is nearly empty, about what comes
// in at a third, twice that when a trim waits for it.
func (p Pace) Rate() int64 {
	percent := p.Ring.percent()
	var rate int64
	switch {
	case p.Hurry:
		return paceHurry
	case percent >= 65:
		rate = p.JournalRate * 4
	case p.Trimming || percent >= trimFrom:
		rate = p.JournalRate * 2
	case percent < paceFrom:
		return 0
	default:
		rate = p.JournalRate * (50 + (percent-paceFrom)*5/2) / 100
	}
	return max(rate, paceFloor)
}

// InFlightMax returns how many bytes of write-back may be under way together.
func (p Pace) InFlightMax() int64 {
	switch percent := p.Ring.percent(); {
	case percent >= 65 || p.Hurry:
		return 8 << 20
	case percent >= trimFrom || p.Trimming:
		return 512 << 10
	}
	return PieceBytes // one large piece at a time, or a few small ones
}

// Burst bounds the allowance that gathers while nothing is written back.
func (p Pace) Burst() int64 {
	return max(int64(float64(p.Rate())*paceBurst.Seconds()), PieceBytes)
}
