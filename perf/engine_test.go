package perf_test

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"ringlog/perf"
)

// What an engine did is the difference of two looks, in shares and rates; the
// standing figures are those of the second.
func TestWhatAnEngineDidBetweenTwoLooks(t *testing.T) {
	times := func(counts ...int64) (t perf.Times) {
		for class, limit := range []float64{0.001, 0.002, math.Inf(1)} {
			t = append(t, perf.TimeClass{Limit: limit, Count: counts[class]})
		}
		return t
	}
	before := &perf.EngineCounts{Appends: 100, AppendBytes: 1000, JournalAppends: 100, JournalAppendBytes: 1000, Frames: 9, Entries: 90,
		CommitTimes: times(7, 0, 0), FlushTimes: times(0, 0, 0), DeviceJournal: 4096, DevicePrepared: 1 << 20}
	after := &perf.EngineCounts{Appends: 200, AppendBytes: 2000, JournalAppends: 175, JournalAppendBytes: 1250, RelaxedAppends: 50, Frames: 19, Entries: 130,
		Trims: 1, CommitTimes: times(17, 10, 0), FlushTimes: times(0, 0, 0),
		DeviceJournal: 4596, DeviceSegment: 1000, DevicePrepared: 1 << 20, DeviceOther: 250, WriteBack: 250,
		JournalBytes: 1000, JournalUsedBytes: 300, DirtyBytes: 5, TailBytes: 9}
	r := after.Since(before, 2)
	for name, got := range map[string][2]float64{
		"commits/s": {r.CommitsPerSecond, 10}, "appends per commit": {r.AppendsPerCommit, 3.75}, "bytes per commit": {r.BytesPerCommit, 12.5},
		"entries per frame": {r.EntriesPerFrame, 4}, "p50 of commits": {float64(r.CommitTimes.P50), 1000}, "p99 of commits": {float64(r.CommitTimes.P99), 1980},
		"share of appends": {r.JournalShare, 0.75}, "share of bytes": {r.JournalByteShare, 0.25}, "relaxed": {r.RelaxedShare, 0.5},
		"amplification": {r.Amplification, 1.75}, "journal": {r.Written["journal"], 0.5}, "write-back": {r.Written["write_back"], 0.25}, "prepared": {r.Written["prepared"], 0},
		"fill": {r.JournalFill, 0.3}, "dirty": {float64(r.DirtyBytes), 5}, "tails": {float64(r.TailBytes), 9},
	} {
		if math.Abs(got[0]-got[1]) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got[0], got[1])
		}
	}
	if r.SegmentFlushes != nil {
		t.Errorf("there was no flush of segments, and it took %+v", r.SegmentFlushes)
	}
	if idle := after.Since(after, 2); idle.Amplification != 0 || idle.CommitTimes != nil || idle.JournalShare != 0 {
		t.Errorf("of nothing: %+v", idle)
	}
}

// Durations beyond the last limit count as that limit.
func TestQuantileBeyondTheScale(t *testing.T) {
	beyond := perf.Times{{Limit: 1}, {Limit: 2}, {Limit: math.Inf(1), Count: 3}}
	if got := beyond.Quantile(0.5); got != 2 {
		t.Errorf("it is %v", got)
	}
}

// A broker whose metrics were asked for by address has to have them, and all that was sent.
func TestMetricsOfAnotherBrokerAreRefused(t *testing.T) {
	for says, complaint := range map[string]string{
		"":                                    "0 of 17 figures",
		"ringlog_engine_appends_total many\n": "no number",
	} {
		admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(says)) }))
		options := produceOptions(startFakeBroker(t), 10)
		options.MetricsURL = admin.URL
		if _, err := perf.Produce(context.Background(), options); err == nil || !strings.Contains(err.Error(), complaint) {
			t.Errorf("%q: %v, want a word about %q", says, err, complaint)
		}
		admin.Close()
	}
}
