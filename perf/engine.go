package perf

import "math"

// EngineCounts is what a storage engine has counted since its start, and how it stands now.
type EngineCounts struct {
	Appends, AppendBytes               int64
	JournalAppends, JournalAppendBytes int64 // of these, what was put into its journal
	RelaxedAppends                     int64 // of these, for logs that do not wait for a flush
	Frames, Entries                    int64 // of the journal
	Trims                              int64 // of the journal
	FullSeconds                        float64
	CommitTimes, FlushTimes            Times // of the journal, of segments

	DeviceJournal, DeviceSegment, DevicePrepared, DeviceOther, WriteBack int64 // bytes

	JournalBytes, JournalUsedBytes, DirtyBytes, TailBytes int64 // now
}

// TimeClass counts durations of up to Limit seconds that are in no earlier class.
type TimeClass struct {
	Limit float64
	Count int64
}

// Times are durations by their class, shortest first; the last class may have
// the limit +Inf.
type Times []TimeClass

// Count is how many there are.
func (t Times) Count() (n int64) {
	for _, class := range t {
		n += class.Count
	}
	return n
}

// since returns what came after before, an earlier count with the same classes or none.
func (t Times) since(before Times) Times {
	later := append(Times(nil), t...)
	for i := range before {
		if i < len(later) {
			later[i].Count -= before[i].Count
		}
	}
	return later
}

// Quantile returns below how many seconds the given part, from 0 to 1, lay, as if those
// of a class were spread evenly. Beyond the last limit it is that; 0 for no durations.
func (t Times) Quantile(part float64) float64 {
	rank, below := part*float64(t.Count()), 0.0
	for _, class := range t {
		if math.IsInf(class.Limit, 1) {
			break
		}
		if class.Count > 0 && rank <= float64(class.Count) {
			return below + (class.Limit-below)*rank/float64(class.Count)
		}
		rank -= float64(class.Count)
		below = class.Limit
	}
	if t.Count() == 0 {
		return 0
	}
	return below
}

// summary is Times in microseconds, as far as their classes tell.
func (t Times) summary() *FlushTimes {
	if t.Count() == 0 {
		return nil
	}
	micros := func(part float64) int64 { return int64(math.Round(t.Quantile(part) * 1e6)) }
	return &FlushTimes{Count: t.Count(), P50: micros(0.5), P99: micros(0.99)}
}

// FlushTimes are of flushes, in microseconds, exact to about a quarter.
type FlushTimes struct {
	Count int64 `json:"count"`
	P50   int64 `json:"p50"`
	P99   int64 `json:"p99"`
}

// EngineReport is what the storage engine did during a run.
type EngineReport struct {
	Appends     int64 `json:"appends"`
	AppendBytes int64 `json:"append_bytes"`

	// Commits are flushes of the journal.
	Commits          int64       `json:"commits"`
	CommitsPerSecond float64     `json:"commits_per_s"`
	AppendsPerCommit float64     `json:"appends_per_commit"` // of those that took the journal
	BytesPerCommit   float64     `json:"bytes_per_commit"`
	EntriesPerFrame  float64     `json:"entries_per_frame"`
	CommitTimes      *FlushTimes `json:"commit_us,omitempty"`
	// SegmentFlushes are rounds of flushes of segments, those of trims among them.
	SegmentFlushes *FlushTimes `json:"segment_flush_us,omitempty"`

	// Shares of all appends and of their bytes, from 0 to 1. What did not take the journal
	// went direct. Relaxed appends do not wait for a flush, on either way.
	JournalShare       float64 `json:"journal_share"`
	JournalByteShare   float64 `json:"journal_byte_share"`
	RelaxedShare       float64 `json:"relaxed_share"`
	Trims              int64   `json:"trims"`
	JournalFullSeconds float64 `json:"journal_full_s"` // in which appends waited for a trim

	// Written is bytes for each byte appended, by what for. Write-back is the part of segments
	// that the journal had made durable before.
	Amplification float64            `json:"write_amplification"`
	Written       map[string]float64 `json:"written"`

	// At the end of the run.
	JournalBytes     int64   `json:"journal_bytes"`
	JournalUsedBytes int64   `json:"journal_used_bytes"`
	JournalFill      float64 `json:"journal_fill"`
	DirtyBytes       int64   `json:"dirty_bytes"`
	TailBytes        int64   `json:"tail_bytes"`
}

// Since reports what the engine did in the seconds since before.
func (c *EngineCounts) Since(before *EngineCounts, seconds float64) *EngineReport {
	ratio := func(a int64, b float64) float64 {
		if b <= 0 {
			return 0
		}
		return float64(a) / b
	}
	commits, flushes := c.CommitTimes.since(before.CommitTimes), c.FlushTimes.since(before.FlushTimes)
	appends, bytes := float64(c.Appends-before.Appends), float64(c.AppendBytes-before.AppendBytes)
	journaled, journaledBytes := c.JournalAppends-before.JournalAppends, c.JournalAppendBytes-before.JournalAppendBytes
	r := &EngineReport{
		Appends: int64(appends), AppendBytes: int64(bytes),
		Commits: commits.Count(), CommitsPerSecond: ratio(commits.Count(), seconds),
		AppendsPerCommit: ratio(journaled, float64(commits.Count())), BytesPerCommit: ratio(journaledBytes, float64(commits.Count())),
		EntriesPerFrame: ratio(c.Entries-before.Entries, float64(c.Frames-before.Frames)),
		CommitTimes:     commits.summary(), SegmentFlushes: flushes.summary(),
		JournalShare: min(ratio(journaled, appends), 1), JournalByteShare: min(ratio(journaledBytes, bytes), 1),
		RelaxedShare: ratio(c.RelaxedAppends-before.RelaxedAppends, appends),
		Trims:        c.Trims - before.Trims, JournalFullSeconds: c.FullSeconds - before.FullSeconds,
		Written: map[string]float64{
			"journal": ratio(c.DeviceJournal-before.DeviceJournal, bytes), "segments": ratio(c.DeviceSegment-before.DeviceSegment, bytes),
			"write_back": ratio(c.WriteBack-before.WriteBack, bytes),
			"prepared":   ratio(c.DevicePrepared-before.DevicePrepared, bytes), "other": ratio(c.DeviceOther-before.DeviceOther, bytes),
		},
		JournalBytes: c.JournalBytes, JournalUsedBytes: c.JournalUsedBytes, JournalFill: ratio(c.JournalUsedBytes, float64(c.JournalBytes)),
		DirtyBytes: c.DirtyBytes, TailBytes: c.TailBytes,
	}
	r.Amplification = r.Written["journal"] + r.Written["segments"] + r.Written["prepared"] + r.Written["other"]
	return r
}
