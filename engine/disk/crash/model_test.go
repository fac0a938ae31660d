package crash_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ringlog/engine/disk"
	"ringlog/engine/disk/crash"
)

const (
	modelFiles  = 3
	modelBlocks = 4
)

// oracle is what a careful reader of the seam knows about each block: the
// values that it may hold after a power cut.
type oracle struct {
	// possible[f][b] holds the durable value first, then each written since.
	possible [modelFiles][modelBlocks][]byte
}

func newOracle() *oracle {
	o := &oracle{}
	for f := range o.possible {
		for b := range o.possible[f] {
			o.possible[f][b] = []byte{0}
		}
	}
	return o
}

// flush notes that file f was flushed with nothing in flight.
func (o *oracle) flush(f int) {
	for b, values := range o.possible[f] {
		o.possible[f][b] = values[len(values)-1:]
	}
}

// Any run of writes and flushes, any power cut: each sector holds its durable
// value or one written since, nothing else, and the sizes stay.
func TestPowerCutsKeepWithinTheSeamsPromises(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		r := &rig{t, crash.New(crash.Options{Seed: seed})}
		o := newOracle()
		var files [modelFiles]disk.File
		for f := range files {
			files[f] = r.durable(fmt.Sprint("f", f), blocksOf(modelBlocks, 0))
		}
		next := byte(0)
		for range rapid.IntRange(1, 25).Draw(rt, "rounds") {
			var ops []*disk.Operation
			for range rapid.IntRange(1, 4).Draw(rt, "writes") {
				f, b := rapid.IntRange(0, modelFiles-1).Draw(rt, "file"), rapid.IntRange(0, modelBlocks-1).Draw(rt, "block")
				if slices.ContainsFunc(ops, func(op *disk.Operation) bool { return op.Owner == [2]int{f, b} }) {
					continue // two writes to one place in flight have no order
				}
				next++
				op := write(files[f], b, 1, next)
				op.Owner = [2]int{f, b}
				o.possible[f][b] = append(o.possible[f][b], next)
				ops = append(ops, op)
				r.Submit(op)
			}
			inFlight := rapid.Bool().Draw(rt, "cut in flight")
			if inFlight {
				finished, err := r.Wait(nil, -1)
				if err != nil {
					rt.Fatal(err)
				}
				o.check(rt, r.Crash(seed+1))
				o.check(rt, r.Kill(seed).Crash(seed+2))
				ops = ops[len(finished):]
			}
			r.wait(ops...)
			o.check(rt, r.Crash(seed+uint64(next)))
			switch rapid.IntRange(0, 5).Draw(rt, "then") {
			case 0:
				f := rapid.IntRange(0, modelFiles-1).Draw(rt, "flushed")
				r.flush(files[f])
				o.flush(f)
			case 1:
				r.must(&disk.Operation{Kind: disk.SyncFilesystem, File: files[0]})
				for f := range files {
					o.flush(f)
				}
			}
			o.check(rt, r.Crash(seed))
		}
	})
}

func (o *oracle) check(t *rapid.T, d *crash.Disk) {
	for f := range o.possible {
		data, err := d.ReadFile(fmt.Sprint("f", f))
		if err != nil || len(data) != modelBlocks*disk.BlockBytes {
			t.Fatalf("file %d: %d bytes, %v", f, len(data), err)
		}
		for b, values := range o.possible[f] {
			block := data[b*disk.BlockBytes : (b+1)*disk.BlockBytes]
			for at := 0; at < len(block); at += disk.SectorBytes {
				sector := block[at : at+disk.SectorBytes]
				if bytes.Count(sector, sector[:1]) != len(sector) || !slices.Contains(values, sector[0]) {
					t.Fatalf("file %d, block %d, sector at %d holds %d, possible are %v", f, b, at, sector[0], values)
				}
			}
		}
	}
}
