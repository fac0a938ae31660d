package compact

import (
	"math"
	"slices"
	"testing"
)

const day = 24 * 3600 * 1000

// segmentsOf makes neighbours of a hundred offsets and so many bytes each, one appended every day, the last
// one at now.
func segmentsOf(now int64, bytes ...int64) []Segment {
	var segments []Segment
	for i, n := range bytes {
		at := now - int64(len(bytes)-1-i)*day
		segments = append(segments, Segment{BaseOffset: int64(i) * 100, NextOffset: int64(i)*100 + 100, Bytes: n, CreatedMillis: at, AppendedMillis: at})
	}
	return segments
}

func TestWhenALogIsCompacted(t *testing.T) {
	const now = 100 * day
	policy := Policy{DirtyRatioMin: 0.5, LagMaxMillis: math.MaxInt64, SegmentBytes: 1000}
	for name, test := range map[string]struct {
		cleaned int64
		bytes   []int64
		policy  func(p *Policy)
		change  func(segments []Segment)
		want    Decision
	}{
		"nothing is sealed":               {want: Decision{}},
		"all is dirty":                    {bytes: []int64{10, 10}, want: Decision{Reason: Dirty, To: 200, Ratio: 1}},
		"half is dirty, more is asked":    {cleaned: 100, bytes: []int64{10, 10}, want: Decision{From: 100, To: 200, Ratio: 0.5}},
		"more than half is dirty":         {cleaned: 100, bytes: []int64{10, 30}, want: Decision{Reason: Dirty, From: 100, To: 200, Ratio: 0.75}},
		"any dirt is enough":              {cleaned: 100, bytes: []int64{99, 1}, policy: func(p *Policy) { p.DirtyRatioMin = 0 }, want: Decision{Reason: Dirty, From: 100, To: 200, Ratio: 0.01}},
		"all is clean":                    {cleaned: 200, bytes: []int64{10, 10}, policy: func(p *Policy) { p.DirtyRatioMin = 0 }, want: Decision{From: 200, To: 200}},
		"the map was full in the middle":  {cleaned: 150, bytes: []int64{10, 30}, want: Decision{Reason: Dirty, From: 150, To: 200, Ratio: 0.75}},
		"retention took what was clean":   {cleaned: 50, bytes: []int64{10, 30}, change: func(s []Segment) { s[0].BaseOffset = 70 }, want: Decision{Reason: Dirty, From: 70, To: 200, Ratio: 1}},
		"the newest segment is too young": {bytes: []int64{10, 10, 10}, policy: func(p *Policy) { p.LagMinMillis = 1 }, want: Decision{Reason: Dirty, To: 200, Ratio: 1}},
		"one that is too young protects older ones behind it": {bytes: []int64{10, 10, 10}, policy: func(p *Policy) { p.LagMinMillis = 2 * day },
			change: func(s []Segment) { s[1].AppendedMillis = now }, want: Decision{Reason: Dirty, To: 100, Ratio: 1}},
		"a record has waited too long": {cleaned: 100, bytes: []int64{1000, 1}, change: func(s []Segment) { s[1].CreatedMillis -= 5 },
			policy: func(p *Policy) { p.LagMaxMillis = 4 }, want: Decision{Reason: Overdue, From: 100, To: 200, Ratio: 1.0 / 1001, OverdueMillis: 1}},
		"it has waited as long as it may": {cleaned: 100, bytes: []int64{1000, 1}, change: func(s []Segment) { s[1].CreatedMillis -= 4 },
			policy: func(p *Policy) { p.LagMaxMillis = 4 }, want: Decision{From: 100, To: 200, Ratio: 1.0 / 1001}},
		"a clock that stepped back":  {cleaned: 100, bytes: []int64{1000, 1}, change: func(s []Segment) { s[1].CreatedMillis += 5 }, want: Decision{From: 100, To: 200, Ratio: 1.0 / 1001}},
		"and before the last append": {bytes: []int64{10}, change: func(s []Segment) { s[0].AppendedMillis += 5 }, want: Decision{Reason: Dirty, To: 100, Ratio: 1}},
		"tombstones are due":         {cleaned: 200, bytes: []int64{10, 10}, change: func(s []Segment) { s[1].HorizonMillis = now }, want: Decision{Reason: Expired, From: 200, To: 200}},
		"tombstones are not due":     {cleaned: 200, bytes: []int64{10, 10}, change: func(s []Segment) { s[1].HorizonMillis = now + 1 }, want: Decision{From: 200, To: 200}},
		"due tombstones in a dirty segment wait": {cleaned: 100, bytes: []int64{10, 10}, change: func(s []Segment) { s[1].HorizonMillis = now },
			want: Decision{From: 100, To: 200, Ratio: 0.5}},
		"due tombstones beside too little dirt": {cleaned: 100, bytes: []int64{99, 1}, change: func(s []Segment) { s[0].HorizonMillis = 1 },
			want: Decision{Reason: Expired, From: 100, To: 100, Ratio: 0.01}},
	} {
		l := Log{NowMillis: now, Cleaned: test.cleaned, Segments: segmentsOf(now, test.bytes...)}
		p := policy
		if test.policy != nil {
			test.policy(&p)
		}
		if test.change != nil {
			test.change(l.Segments)
		}
		if got := l.Decide(p); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func TestWhichSegmentsAreWritten(t *testing.T) {
	l := Log{NowMillis: 5, Segments: segmentsOf(0, 10, 10, 10, 10)}
	l.Segments[0].HorizonMillis, l.Segments[1].HorizonMillis, l.Segments[2].HorizonMillis = 5, 6, 5
	if got := l.Chosen(Decision{Reason: Dirty, From: 100, To: 400}, 250); !slices.Equal(got, []int{0, 1, 2}) {
		t.Errorf("up to an end in the third: %v", got)
	}
	if got := l.Chosen(Decision{Reason: Expired, From: 200, To: 200}, 200); !slices.Equal(got, []int{0}) {
		t.Errorf("for tombstones alone: %v", got)
	}
}

func TestWhichSegmentsBecomeOne(t *testing.T) {
	p := Policy{SegmentBytes: 1000}
	for _, test := range []struct {
		reason Reason
		bytes  int64
		next   Segment
		want   bool
	}{
		{Dirty, 400, Segment{NextOffset: 20, Bytes: 600}, true},
		{Dirty, 400, Segment{NextOffset: 20, Bytes: 601}, false},
		{Overdue, 1, Segment{NextOffset: 11 + spanMax, Bytes: 1}, true},
		{Overdue, 1, Segment{NextOffset: 12 + spanMax, Bytes: 1}, false},
		{Expired, 1, Segment{NextOffset: 20, Bytes: 1}, false},
	} {
		l := Log{Segments: []Segment{{BaseOffset: 10, NextOffset: 15}, test.next}}
		if got := l.Joins(p, Decision{Reason: test.reason}, 0, test.bytes, 1); got != test.want {
			t.Errorf("%+v behind %d bytes, %v: %v", test.next, test.bytes, test.reason, got)
		}
	}
}
