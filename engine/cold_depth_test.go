package engine

import (
	"testing"
	"time"

	"ringlog/engine/plan"
)

// What a consumer far behind reads stands in the device's queue before the flushes of appends: beside
// them little of it is in flight, and alone as much as the device takes.
func TestColdReadsMakeRoomForAppends(t *testing.T) {
	for _, beside := range []bool{true, false} {
		r, all := behind(t, 100, 60_000)
		r.pass(time.Second)
		if beside {
			r.fill(1, 100)
		}
		done := 0
		read := &Read{BytesMax: 1 << 20, BytesMin: 1, Done: func(*Read) { done++ }, Parts: []ReadPart{{Log: r.log, BytesMax: 1 << 20}}}
		r.step.Read(read)
		most, q := int64(0), &r.step.shards[0].reads.cold
		for turns := 0; done == 0; turns++ {
			if err := r.step.Turn(); err != nil || turns > 1000 {
				t.Fatalf("after %d turns: %v", turns, err)
			}
			most = max(most, q.inFlight)
		}
		got := copyBatches(r, &read.Parts[0])
		read.Release()
		r.expect(all[:len(got)], got)
		if beside && most != plan.PieceBytes || !beside && most != 4*plan.PieceBytes || len(got) < 15 {
			t.Errorf("beside appends: %v; %d bytes in flight, %d batches", beside, most, len(got))
		}
		r.settle()
		if q.inFlight != 0 || len(q.deep) != 0 {
			t.Errorf("%d bytes are in flight, %d wait", q.inFlight, len(q.deep))
		}
	}
}
