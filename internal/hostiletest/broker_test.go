package hostiletest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"ringlog/internal/ringlogtest"
)

func TestMain(m *testing.M) { ringlogtest.Main(m) }

// target is a broker under attack.
type target struct {
	*ringlogtest.Broker
	t *testing.T
}

// memoryBudgetBytes is what ringlogtest gives a broker, and heapAllowanceBytes what may come on
// top of it: the Go heap, with what large requests may hold there and garbage of the same
// size again.
const (
	memoryBudgetBytes  = 256 << 20
	heapAllowanceBytes = 192 << 20
)

// startTarget starts a broker whose metadata does not grow by requests that name nothing.
func startTarget(t *testing.T, settings ...string) target {
	t.Helper()
	flags := []string{"--set", "auto.create.topics.enable=false"}
	for _, setting := range settings {
		flags = append(flags, "--set", setting)
	}
	return target{ringlogtest.Start(t, ringlogtest.Options{Flags: flags}), t}
}

// residentBytes reads how much of the broker is in memory now and was at most since
// forgetPeak; ok is false where the system does not tell.
func (b target) residentBytes() (now, peak int64, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.PID()))
	if err != nil {
		return 0, 0, false
	}
	field := func(name string) int64 {
		for line := range strings.Lines(string(text)) {
			if rest, found := strings.CutPrefix(line, name+":"); found {
				kibibytes, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
				if err == nil {
					return kibibytes << 10
				}
			}
		}
		return 0
	}
	now, peak = field("VmRSS"), field("VmHWM")
	return now, peak, now > 0 && peak > 0
}

// forgetPeak has the system measure the peak from now on, where it can.
func (b target) forgetPeak() {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", b.PID()), []byte("5"), 0o200)
}

// expectAlive fails the test unless the broker works, has hit no fault of its own, and has stayed
// within its memory.
func (b target) expectAlive() {
	b.t.Helper()
	if b.Metric("ringlog_healthy") != 1 {
		b.t.Error("the broker says that it is not healthy")
	}
	if panics := b.Metric("ringlog_kafka_panics_total"); panics != 0 {
		b.t.Errorf("%v requests hit a fault of the broker", panics)
	}
	for _, pool := range []string{"frames", "tail", "cold"} {
		in, limit := b.Metric(`ringlog_memory_in_use_bytes{pool="`+pool+`"}`), b.Metric(`ringlog_memory_limit_bytes{pool="`+pool+`"}`)
		if in > limit {
			b.t.Errorf("pool %s has %v bytes in use, its limit is %v", pool, in, limit)
		}
	}
	if in, limit := b.Metric("ringlog_kafka_request_memory_in_use_bytes"), b.Metric("ringlog_kafka_request_memory_limit_bytes"); in > limit {
		b.t.Errorf("requests hold %v bytes, their limit is %v", in, limit)
	}
	now, peak, known := b.residentBytes()
	if !known {
		return
	}
	b.t.Logf("resident: %d MiB now, %d MiB at most", now>>20, peak>>20)
	if peak > memoryBudgetBytes+heapAllowanceBytes && !raceDetector {
		b.t.Errorf("the broker had %d MiB in memory, its budget is %d MiB and %d MiB of heap", peak>>20, memoryBudgetBytes>>20, heapAllowanceBytes>>20)
	}
}

// expectFramesBack waits until no request holds memory any more.
func (b target) expectFramesBack() {
	b.t.Helper()
	await(b.t, "the memory of requests is back", func() bool {
		return b.Metric(`ringlog_memory_in_use_bytes{pool="frames"}`) <= 1<<20 && b.Metric("ringlog_kafka_request_memory_in_use_bytes") == 0
	})
}
