package perf_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringlog/perf"
)

func besideOptions(b *fakeBroker) perf.BesideOptions {
	o := perf.BesideOptions{Producer: perf.ProduceOptions{Load: perf.NewLoad(), Brokers: []string{b.address()}, Topic: "t"}, Settle: time.Millisecond}
	o.Producer.RecordBytes, o.Producer.BatchBytes, o.Producer.Connections, o.Producer.Depth = 100, 1000, 1, 4
	o.Producer.Rate, o.Producer.Duration = 5000, 50*time.Millisecond
	return o
}

// Whoever is beside the producer is there in the second phase; the tails, whom the others
// disturb, in both. Nothing is read from who only waits.
func TestAProducerIsMeasuredBesideOthers(t *testing.T) {
	b := startFakeBroker(t)
	o := besideOptions(b)
	o.Idle, o.Tails, o.Scans, o.Stuck, o.HistoryBytes, o.Rounds = 20, 2, 1, 3, 20_000, 2
	var steps []string
	o.OnStep = func(what string, _ time.Duration) { steps = append(steps, what) }
	report, err := perf.Beside(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Rounds) != 2 {
		t.Fatalf("%d rounds", len(report.Rounds))
	}
	for _, round := range report.Rounds {
		for name, phase := range map[string]perf.BesidePhase{"alone": round.Alone, "beside": round.Beside} {
			if phase.AckLatency == nil || phase.MBPerSecond == 0 || phase.TailMBPerSecond == 0 || phase.EndToEnd == nil || phase.EndToEnd.Max > time.Minute.Microseconds() {
				t.Errorf("%s: %+v", name, phase)
			}
		}
		if round.Alone.ScanMBPerSecond != 0 || round.Beside.ScanMBPerSecond == 0 {
			t.Errorf("scans read %v MB/s alone, %v beside", round.Alone.ScanMBPerSecond, round.Beside.ScanMBPerSecond)
		}
		if round.Idle.Connections != 20 || round.Idle.Closed != 0 || round.Idle.Answered != 0 || round.StuckClosed != 0 {
			t.Errorf("idle: %+v, stuck: %d closed", round.Idle, round.StuckClosed)
		}
	}
	if !strings.HasPrefix(steps[0], "filling t with 200 records") || !slices.Contains(steps, "round 2 of 2, beside") {
		t.Errorf("steps: %q", steps)
	}
	if len(report.Notes) != 1 || !strings.Contains(report.Notes[0], "process is not known") {
		t.Errorf("notes: %q", report.Notes)
	}
}

// A broker that closes idle connections has measured nothing.
func TestIdleConnectionsHaveToStay(t *testing.T) {
	b := startFakeBroker(t)
	b.hangUpOnWaits = true
	o := besideOptions(b)
	o.Idle, o.Settle = 5, 400*time.Millisecond
	if _, err := perf.Beside(context.Background(), o); !errors.Is(err, perf.ErrRefused) {
		t.Errorf("error %v, not %v", err, perf.ErrRefused)
	}
}

// getrlimit(2): what cannot be opened is not begun.
func TestMoreConnectionsThanFilesAreRefused(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	lower := before
	lower.Cur = 200
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &lower); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
	}()
	o := besideOptions(startFakeBroker(t))
	o.Idle = 200
	if _, err := perf.Beside(context.Background(), o); !errors.Is(err, perf.ErrFiles) {
		t.Errorf("error %v, not %v", err, perf.ErrFiles)
	}
}

func TestBesideNobodyIsRefused(t *testing.T) {
	o := perf.BesideOptions{Producer: perf.ProduceOptions{Load: perf.NewLoad()}, Rounds: -1}
	o.Producer.Count = 5
	_, err := perf.Beside(context.Background(), o)
	for _, fault := range []string{"nobody is beside", "for a duration", "-1 rounds"} {
		if err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%v does not say %q", err, fault)
		}
	}
}
