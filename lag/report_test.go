package lag_test

import (
	"math"
	"testing"
	"time"

	"ringlog/lag"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// stream is a partition that a producer fills evenly from noon on, and a group that reads it.
type stream struct {
	perSecond int64
	retention time.Duration
}

// at is what is seen so long after noon by a group that has committed the records of the first part of that.
func (s stream) at(after, read time.Duration) *lag.Observation {
	offsetOf := func(d time.Duration) int64 { return int64(d.Seconds() * float64(s.perSecond)) }
	o := &lag.Observation{At: noon.Add(after), Committed: offsetOf(read), End: offsetOf(after), Retention: s.retention}
	first := time.Duration(0)
	if s.retention > 0 {
		first = max(after-s.retention, 0)
	}
	o.Start = offsetOf(first)
	o.NextTimestamp = noon.Add(max(read, first))
	return o
}

func seconds(t *testing.T, what string, got *time.Duration, want float64) {
	t.Helper()
	if got == nil || math.Abs(got.Seconds()-want) > 1e-6 {
		t.Errorf("%s is %v, want %v s", what, got, want)
	}
}

// A group stood still for 30 s. How long it pays for that depends on what it can read above what is produced, and not
// on the length of the stall alone.
func TestAStallDrainsByHeadroom(t *testing.T) {
	s := stream{perSecond: 1000}
	for headroom, want := range map[float64]float64{0.20: 150, 0.05: 600} {
		step := time.Second * 10
		before := s.at(60*time.Second-step, 30*time.Second-time.Duration((1+headroom)*float64(step)))
		r := lag.Analyse(s.at(60*time.Second, 30*time.Second), before)
		seconds(t, "drain", r.Drain, want)
		seconds(t, "lag", r.Behind, 30)
		if r.Records != 30_000 || r.Stuck || math.Abs(r.Rates.Change+1000*headroom) > 1e-6 {
			t.Errorf("%+v, %+v", r, *r.Rates)
		}
	}
	r := lag.Analyse(s.at(60*time.Second, 30*time.Second), s.at(50*time.Second, 20*time.Second))
	if *r.Drain != lag.Never || r.Rates.Change != 0 || r.Rates.Consumed != 1000 {
		t.Errorf("with no headroom the lag of 30 s stays for ever: %+v", r)
	}
}

func TestABacklogDrainsByItsSurplus(t *testing.T) {
	got := lag.DrainTime(1_200_000, 20_000)
	seconds(t, "drain of 1.2M records at 20,000/s", &got, 60)
	if lag.DrainTime(0, -5) != 0 || lag.DrainTime(1, 0) != lag.Never || lag.DrainTime(math.MaxInt64, 1e-9) != lag.Never {
		t.Error("nothing drains at once; without a surplus nothing does")
	}
}

// A group stops on a topic that keeps ten minutes. It is warned at five and at eight, and told from the first
// look when it will lose; at ten it has.
func TestAStoppedGroupIsWarnedBeforeItLoses(t *testing.T) {
	s := stream{perSecond: 100, retention: 10 * time.Minute}
	for _, c := range []struct {
		after time.Duration
		level lag.Level
	}{
		{time.Minute, lag.LevelNone}, {5*time.Minute - time.Second, lag.LevelNone}, {5 * time.Minute, lag.LevelWarning},
		{8*time.Minute - time.Second, lag.LevelWarning}, {8 * time.Minute, lag.LevelCritical}, {10 * time.Minute, lag.LevelCritical},
		{10*time.Minute + time.Second, lag.LevelLost},
	} {
		r := lag.Analyse(s.at(c.after, 0), s.at(c.after-2*time.Second, 0))
		if r.Level != c.level || !r.Stuck {
			t.Errorf("after %s: level %s, stuck %t, want %s", c.after, r.Level, r.Stuck, c.level)
		}
		if c.level < lag.LevelLost && !r.LossAt.Equal(noon.Add(10*time.Minute)) {
			t.Errorf("after %s it is to lose at %s", c.after, r.LossAt)
		}
	}
}

// Down for nine minutes where seven are kept: two are lost, and which records these were is known to the offset.
func TestALongOutageLosesWhatRetentionDoesNotHold(t *testing.T) {
	s := stream{perSecond: 100, retention: 7 * time.Minute}
	r := lag.Analyse(s.at(10*time.Minute, time.Minute), s.at(2*time.Minute, time.Minute))
	if r.Level != lag.LevelLost || r.LostFrom != 6_000 || r.LostUntil != 18_000 || r.Lost() != 12_000 {
		t.Errorf("%+v", r)
	}
	seconds(t, "lost", r.LostTime, 120)
	if r.Records != 42_000 {
		t.Errorf("%d records are left to read, want those of seven minutes", r.Records)
	}
	alone := lag.Analyse(s.at(10*time.Minute, time.Minute), nil)
	if alone.Lost() != 12_000 || alone.LostTime != nil || alone.Rates != nil || alone.Drain != nil {
		t.Errorf("one look tells the range, and no times: %+v", alone)
	}
}

// A slow group falls behind by half a second a second; one that catches up loses nothing.
func TestLossIsPredictedFromTheSpeed(t *testing.T) {
	s := stream{perSecond: 100, retention: 10 * time.Minute}
	slow := lag.Analyse(s.at(4*time.Minute, 2*time.Minute), s.at(3*time.Minute, 90*time.Second))
	if want := noon.Add(20 * time.Minute); !slow.LossAt.Equal(want) { // two minutes behind, eight to go at half speed
		t.Errorf("loss at %s, want %s", slow.LossAt, want)
	}
	fast := lag.Analyse(s.at(4*time.Minute, 2*time.Minute), s.at(3*time.Minute, 30*time.Second))
	if !fast.LossAt.IsZero() {
		t.Errorf("it catches up, and is to lose at %s", fast.LossAt)
	}
}

// A log of at most 1000 bytes, in which each record takes 10: the group that stands still has room for 100 records.
func TestRetentionByBytesIsConsumedToo(t *testing.T) {
	before := &lag.Observation{At: noon, Committed: 0, End: 50, LogBytes: 500, RetentionBytes: 1000}
	now := &lag.Observation{At: noon.Add(10 * time.Second), Committed: 0, End: 60, LogBytes: 600, RetentionBytes: 1000}
	r := lag.Analyse(now, before)
	if r.BytesShare == nil || *r.BytesShare != 0.6 || r.TimeShare != nil || r.Level != lag.LevelWarning {
		t.Errorf("%+v", r)
	}
	if want := noon.Add(50 * time.Second); !r.LossAt.Equal(want) {
		t.Errorf("loss at %s, want %s: a record a second, forty to go", r.LossAt, want)
	}
	now.Retention, now.NextTimestamp = time.Minute, noon.Add(-44*time.Second)
	if r = lag.Analyse(now, before); *r.TimeShare != 0.9 || *r.Share() != 0.9 || r.Level != lag.LevelCritical {
		t.Errorf("the worse of both counts: %+v", r)
	}
}

// What says nothing says so, and nothing is negative.
func TestWhatIsNotKnownIsNotInvented(t *testing.T) {
	if r := lag.Analyse(&lag.Observation{At: noon, Committed: lag.None, End: 9}, nil); r.Records != lag.None || r.Behind != nil || r.Level != lag.LevelNone {
		t.Errorf("before the first commit: %+v", r)
	}
	if r := lag.Analyse(&lag.Observation{At: noon, Committed: 12, End: 9}, nil); !r.Ahead || r.Records != 0 {
		t.Errorf("ahead of a log that was created anew: %+v", r)
	}
	s := stream{perSecond: 100, retention: time.Hour}
	if r := lag.Analyse(s.at(60*time.Second, 10*time.Second), s.at(50*time.Second, 40*time.Second)); r.Rates != nil || r.Stuck {
		t.Errorf("across a reset there is no speed: %+v", r)
	}
	idle := s.at(60*time.Second, 60*time.Second)
	later := *idle
	later.At = later.At.Add(time.Hour)
	if r := lag.Analyse(&later, idle); r.Stuck || *r.Behind != 0 || *r.Drain != 0 || r.Level != lag.LevelNone || !r.LossAt.IsZero() {
		t.Errorf("who has read all waits, and is not stuck: %+v", r)
	}
	ahead := s.at(60*time.Second, 10*time.Second)
	ahead.NextTimestamp = noon.Add(time.Hour)
	if r := lag.Analyse(ahead, nil); *r.Behind != 0 || *r.TimeShare != 0 {
		t.Errorf("a producer's clock that is ahead makes no negative age: %+v", r)
	}
	ahead.NextTimestamp = time.Time{}
	if r := lag.Analyse(ahead, nil); r.Behind != nil || r.TimeShare != nil || !r.LossAt.IsZero() {
		t.Errorf("without a timestamp there are no seconds: %+v", r)
	}
}
