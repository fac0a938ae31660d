package commit

import (
	"testing"
	"time"

	"ringlog/record"
)

// Every partition is in one slice; all appends that are asked for are in flight
// when they may be, and no more bytes than may be otherwise.
func TestShapeCoversEveryPartitionOnce(t *testing.T) {
	for _, partitions := range []int{1, 2, 5, 16, 384, 10_000} {
		for _, inFlight := range []int{1, 2, 7} {
			for _, groups := range []int{1, 2, 3, 100} {
				for _, allowed := range []int64{1, 3, 10, 383, 384, 5000, 1 << 20} {
					o := Options{Partitions: partitions, InFlight: inFlight, Groups: groups, InFlightBytes: 1000 * allowed}
					s := shapeOf(&o, 1000)
					next := 0
					for slice := range s.slices {
						first, count := s.of(slice)
						if first != next || count < 1 {
							t.Fatalf("%+v: slice %d is %d partitions from %d on", o, slice, count, first)
						}
						next += count
					}
					if next != partitions {
						t.Fatalf("%+v: %d partitions are covered", o, next)
					}
					wanted := partitions * inFlight
					switch {
					case int64(wanted) <= allowed && (s.window != s.slices*inFlight || s.rotating):
						t.Fatalf("%+v: %+v leaves some out", o, s)
					case int64(wanted) > allowed && int64(s.window*s.size) > max(allowed, int64(s.size)):
						t.Fatalf("%+v: %+v has too much in flight", o, s)
					}
				}
			}
		}
	}
}

// No group is larger than a request may be, whatever is asked for.
func TestGroupsStayBelowARequest(t *testing.T) {
	o := Options{Partitions: 1000, InFlight: 1, Groups: 2, InFlightBytes: 1 << 30}
	if s := shapeOf(&o, 1<<20); s.size != 16 || s.window != s.slices || s.slices != 63 {
		t.Errorf("%+v", s)
	}
	if s := shapeOf(&o, 64<<20); s.size != 1 || s.window != 16 {
		t.Errorf("batches larger than that: %+v", s)
	}
}

// Where slices take turns, each has its turn, also when answers come in another order.
func TestRotationVisitsEverySlice(t *testing.T) {
	o := Options{Partitions: 10, InFlight: 1, Groups: 2, InFlightBytes: 4000}
	r := newRotation(shapeOf(&o, 1000))
	seen := map[int]int{0: 1, 1: 1} // of the first two groups
	for range 8 {
		seen[r.after(1)]++
	}
	for slice := range r.slices {
		if seen[slice] != 2 {
			t.Errorf("slice %d of %d was taken %d times in two rounds", slice, r.slices, seen[slice])
		}
	}
}

// A batch is as large as was asked for, or a byte smaller, and is what a
// producer could have sent.
func TestBatchHasTheSizeAskedFor(t *testing.T) {
	sizes := []int{1024, 16384, 16459, 65536, 1 << 20, recordBytesMax}
	for size := recordBytesMin; size < 400; size++ {
		sizes = append(sizes, size)
	}
	for _, size := range sizes {
		batch, err := newBatch(size)
		if err != nil {
			t.Fatal(err)
		}
		if len(batch) > size || len(batch) < size-1 {
			t.Errorf("a batch of %d bytes instead of %d", len(batch), size)
		}
		if err := record.Check(batch); err != nil || batch.LastOffsetDelta() != 0 {
			t.Errorf("%d bytes: %v, last offset delta %d", size, err, batch.LastOffsetDelta())
		}
	}
}

// The meter counts from the first answer after the warm-up, which it does not
// count itself, to the first at or after the end, and shows the thirds apart.
func TestMeterCountsBetweenWarmUpAndEnd(t *testing.T) {
	m := newMeter(&Options{WarmUp: time.Second, Duration: 3 * time.Second}, 100)
	start := time.Now()
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	var total counters
	m.begin(start, func() counters { return total })
	answer := func(seconds float64, appends int) {
		m.answered(at(seconds), at(seconds-0.002), appends)
		total.commits++
		total.deviceBytes += 200 * int64(appends)
	}
	answer(0.5, 7)
	answer(1.5, 7) // counting begins at 1.5
	answer(2.0, 10)
	answer(3.0, 20)
	answer(4.0, 40)
	answer(5.5, 80) // and ends here
	if !m.over() {
		t.Error("the meter goes on")
	}
	answer(6, 1000)
	var r Report
	m.fill(&r)
	if r.Seconds != 4 || r.Appends != 150 || r.Bytes != 15_000 || r.TotalAppends != 1164 {
		t.Errorf("%v s, %d appends of %d bytes, %d in total", r.Seconds, r.Appends, r.Bytes, r.TotalAppends)
	}
	if r.FirstThird != 10 || r.LastThird != 60 { // 120 in the 2 s from 3.5 on
		t.Errorf("first third %v, last third %v", r.FirstThird, r.LastThird)
	}
	if r.Latency.Count != 150 || r.Latency.P50 < 1990 || r.Latency.P50 > 2010 {
		t.Errorf("%+v", r.Latency)
	}
	if r.Commits != 4 || r.Amplification != 2*float64(7+10+20+40)/150 {
		t.Errorf("%d commits, amplification %v", r.Commits, r.Amplification)
	}
}

// A run ends before the space for its files is used up, and says so.
func TestMeterEndsBeforeTheSpaceDoes(t *testing.T) {
	m := newMeter(&Options{Duration: time.Hour}, 1000)
	m.bytesMax = 2500
	now := time.Now()
	m.begin(now, func() counters { return counters{} })
	m.answered(now.Add(time.Second), now, 1)
	m.answered(now.Add(2*time.Second), now, 1)
	if m.over() {
		t.Error("it ended at 2000 bytes of 2500")
	}
	m.answered(now.Add(3*time.Second), now, 1)
	var r Report
	m.fill(&r)
	if !m.over() || len(r.Notes) != 1 || r.AppendsPerSecond != 1 {
		t.Errorf("over: %v, %v, %v appends/s", m.over(), r.Notes, r.AppendsPerSecond)
	}
}
