package commit

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"ringlog/perf"
)

// counters are totals of a system, read at both ends of what is counted.
type counters struct {
	commits     int64
	deviceBytes int64
	process     int64 // the meter's own
}

// meter counts answers between two moments. It belongs to the goroutine of the load.
type meter struct {
	warmUp, duration time.Duration
	bytesMax         int64 // answered bytes after which it ends before its time
	batchBytes       int64
	read             func() counters

	warm     time.Time // when the warm-up ends
	from, to time.Time // of what is counted; to is the last counted answer's
	ended    bool
	cut      bool // by bytesMax
	total    int64
	appends  int64
	thirds   [3]int64
	latency  *hdrhistogram.Histogram
	cpu      *perf.CPUMeter
	used     perf.CPU
	start    counters
	end      counters
}

func newMeter(o *Options, batchBytes int) *meter {
	return &meter{warmUp: o.WarmUp, duration: o.Duration, batchBytes: int64(batchBytes), bytesMax: 1<<63 - 1, latency: perf.NewHistogram()}
}

// begin is called when the load is about to start; read returns the system's counters.
func (m *meter) begin(now time.Time, read func() counters) {
	m.warm, m.read = now.Add(m.warmUp), read
}

// over says that no more is to be submitted.
func (m *meter) over() bool { return m.ended }

// answered takes the answer to a group of appends that was submitted at since.
func (m *meter) answered(at, since time.Time, appends int) {
	m.total += int64(appends)
	switch {
	case m.ended:
		return
	case m.from.IsZero():
		if !at.Before(m.warm) { // this answer is where counting begins
			m.from, m.start, m.cpu = at, m.snapshot(), perf.StartCPUMeter(0)
		}
		return
	}
	m.appends += int64(appends)
	perf.RecordLatency(m.latency, at.Sub(since), int64(appends))
	passed := at.Sub(m.from)
	m.thirds[min(int64(3*passed/m.duration), 2)] += int64(appends)
	m.cut = m.total*m.batchBytes >= m.bytesMax
	if passed >= m.duration || m.cut {
		m.to, m.ended = at, true
		m.used, m.end = m.cpu.Stop(), m.snapshot()
	}
}

func (m *meter) snapshot() counters {
	c := m.read()
	c.process = processWriteBytes()
	return c
}

// fill writes what was counted into a report.
func (m *meter) fill(r *Report) {
	elapsed := m.to.Sub(m.from).Seconds()
	r.Seconds, r.TotalAppends = elapsed, m.total
	r.Appends, r.Bytes = m.appends, m.appends*m.batchBytes
	r.AppendsPerSecond, r.MBPerSecond = per(r.Appends, elapsed), per(r.Bytes, elapsed*1e6)
	third := m.duration.Seconds() / 3
	r.FirstThird = per(m.thirds[0], min(third, elapsed))
	r.LastThird = per(m.thirds[2], elapsed-2*third)
	r.Commits = m.end.commits - m.start.commits
	r.CommitsPerSecond = per(r.Commits, elapsed)
	r.AppendsPerCommit, r.BytesPerCommit = per(r.Appends, float64(r.Commits)), per(r.Bytes, float64(r.Commits))
	r.Latency = perf.Summarise(m.latency)
	r.DeviceBytes = m.end.deviceBytes - m.start.deviceBytes
	r.Amplification = per(r.DeviceBytes, float64(r.Bytes))
	r.ProcessWriteBytes = m.end.process - m.start.process
	r.ProcessAmplification = per(r.ProcessWriteBytes, float64(r.Bytes))
	r.CPU = m.used
	r.ResidentBytesMax = perf.ProcessFigure("/proc/self/status", "VmHWM:") << 10
	if m.cut {
		r.Notes = append(r.Notes, "ended early: the space for files was used up")
	}
}

// processWriteBytes is what this process caused to be sent to the storage
// layer (proc_pid_io(5)), 0 where nobody counts.
func processWriteBytes() int64 { return perf.ProcessFigure("/proc/self/io", "write_bytes:") }
