package main

import (
	"fmt"
	"io"
	"strings"

	"ringlog/perf"
)

// printEngine writes what a storage engine did during a run, for people.
func printEngine(output io.Writer, r *perf.EngineReport) {
	line := func(name, format string, arguments ...any) {
		fmt.Fprintf(output, "  %-12s%s\n", name, fmt.Sprintf(format, arguments...))
	}
	if r.JournalBytes > 0 {
		line("journal", "%s commits/s, of %s appends and %s bytes; %s logs in a frame",
			grouped(r.CommitsPerSecond), grouped(r.AppendsPerCommit), grouped(r.BytesPerCommit), grouped(r.EntriesPerFrame))
		line("", "flushes: %s", flushTimes(r.CommitTimes))
		line("", "%.0f %% of %s bytes in use at the end; %d trims; appends waited for one for %.2f s",
			100*r.JournalFill, grouped(float64(r.JournalBytes)), r.Trims, r.JournalFullSeconds)
	}
	line("segments", "rounds of flushes: %s", flushTimes(r.SegmentFlushes))
	line("ways", "%.0f %% of appends and %.0f %% of bytes by the journal, the rest direct; %.0f %% of appends wait for no flush",
		100*r.JournalShare, 100*r.JournalByteShare, 100*r.RelaxedShare)
	var kinds []string
	for _, kind := range []string{"journal", "segments", "prepared", "other"} {
		kinds = append(kinds, fmt.Sprintf("%s %.2f", kind, r.Written[kind]))
	}
	line("device", "%.2f bytes written for each byte appended: %s (of segments %.2f are write-back)",
		r.Amplification, strings.Join(kinds, ", "), r.Written["write_back"])
	line("tails", "%s bytes in memory, %s of them in no segment", grouped(float64(r.TailBytes)), grouped(float64(r.DirtyBytes)))
}

// flushTimes prints how long flushes took.
func flushTimes(t *perf.FlushTimes) string {
	if t == nil {
		return "none"
	}
	return fmt.Sprintf("%s, p50 about %s, p99 %s", grouped(float64(t.Count)), micros(t.P50), micros(t.P99))
}
