package perf

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	metricsTimeout  = 5 * time.Second
	metricsBytesMax = 16 << 20
	metricsOff      = "off"
)

// metricsReader reads what a broker's engine counted from its /metrics.
type metricsReader struct {
	url     string // "" for none
	guessed bool   // nobody said that it is this broker's
	before  *EngineCounts
}

// newMetricsReader takes the address that was given or, for a broker on this
// machine at the port that is the default, the default beside it.
func newMetricsReader(url string, brokers []string) *metricsReader {
	switch url {
	case metricsOff:
		return &metricsReader{}
	case "":
		host, port, err := net.SplitHostPort(brokers[0])
		if ip := net.ParseIP(host); err != nil || port != "9092" || len(brokers) != 1 || (host != "localhost" && (ip == nil || !ip.IsLoopback())) {
			return &metricsReader{}
		}
		return &metricsReader{url: "http://" + net.JoinHostPort(host, "9644") + "/metrics", guessed: true}
	}
	return &metricsReader{url: url}
}

// begin looks for the first time. Only an address that was given has to answer.
func (r *metricsReader) begin(ctx context.Context) error {
	if r.url == "" {
		return nil
	}
	var err error
	if r.before, err = readMetrics(ctx, r.url); err != nil && !r.guessed {
		return err
	}
	return nil
}

// end looks again and reports what happened since begin: nil when nobody answered, or
// somebody who has not got the bytes that the run sent.
func (r *metricsReader) end(ctx context.Context, bytes int64, seconds float64) (*EngineReport, error) {
	if r.before == nil {
		return nil, nil
	}
	after, err := readMetrics(ctx, r.url)
	if err != nil {
		if r.guessed {
			return nil, nil
		}
		return nil, err
	}
	report := after.Since(r.before, seconds)
	if report.AppendBytes < bytes {
		if r.guessed {
			return nil, nil
		}
		return nil, fmt.Errorf("perf: the broker at %s counted %d bytes of %d: it is another one, or not the only one", r.url, report.AppendBytes, bytes)
	}
	return report, nil
}

// readMetrics gets the counts of the engine behind url.
func readMetrics(ctx context.Context, url string) (*EngineCounts, error) {
	ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("perf: metrics: %w", err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return nil, fmt.Errorf("perf: metrics: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("perf: metrics: %s answers %s", url, response.Status)
	}
	counts, err := parseMetrics(io.LimitReader(response.Body, metricsBytesMax))
	if err != nil {
		return nil, fmt.Errorf("perf: metrics: %s: %w", url, err)
	}
	return counts, nil
}

// parseMetrics takes the engine's figures from Prometheus' text format.
func parseMetrics(text io.Reader) (*EngineCounts, error) {
	c := new(EngineCounts)
	integers := map[string]*int64{
		"appends_total": &c.Appends, "append_bytes_total": &c.AppendBytes,
		"journal_appends_total": &c.JournalAppends, "journal_append_bytes_total": &c.JournalAppendBytes, "relaxed_appends_total": &c.RelaxedAppends,
		"journal_frames_total": &c.Frames, "journal_entries_total": &c.Entries, "journal_trims_total": &c.Trims,
		`device_bytes_total{kind="journal"}`: &c.DeviceJournal, `device_bytes_total{kind="segment"}`: &c.DeviceSegment,
		`device_bytes_total{kind="prepared"}`: &c.DevicePrepared, `device_bytes_total{kind="other"}`: &c.DeviceOther,
		"write_back_bytes_total": &c.WriteBack,
		"journal_bytes":          &c.JournalBytes, "journal_used_bytes": &c.JournalUsedBytes, "dirty_bytes": &c.DirtyBytes, "tail_bytes": &c.TailBytes,
	}
	classes := map[string]*Times{"journal_flush_seconds_bucket{le=": &c.CommitTimes, "segment_flush_seconds_bucket{le=": &c.FlushTimes}
	found := 0
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		name, figure, ok := strings.Cut(lines.Text(), " ")
		name, ours := strings.CutPrefix(name, "ringlog_engine_")
		if !ok || !ours {
			continue
		}
		value, err := strconv.ParseFloat(figure, 64)
		if err != nil {
			return nil, fmt.Errorf("%s is %q, no number", name, figure)
		}
		if field := integers[name]; field != nil {
			*field = int64(value)
			found++
		} else if name == "journal_full_seconds_total" {
			c.FullSeconds = value
		}
		for prefix, times := range classes {
			if limit, is := strings.CutPrefix(name, prefix); is {
				seconds, err := strconv.ParseFloat(strings.Trim(limit, `"}`), 64)
				if err != nil {
					return nil, fmt.Errorf("%s has no limit: %w", name, err)
				}
				*times = append(*times, TimeClass{Limit: seconds, Count: int64(value)})
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if found < len(integers) {
		return nil, fmt.Errorf("%d of %d figures of the storage engine are there", found, len(integers))
	}
	c.CommitTimes.apart()
	c.FlushTimes.apart()
	return c, nil
}

// apart turns Prometheus' classes, each of which counts those below it too, into ours.
func (t Times) apart() {
	slices.SortFunc(t, func(a, b TimeClass) int { return cmp.Compare(a.Limit, b.Limit) })
	for i := len(t) - 1; i > 0; i-- {
		t[i].Count -= t[i-1].Count
	}
}
