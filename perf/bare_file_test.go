package perf

import (
	"bytes"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"

	"ringlog/buffer"
	"ringlog/engine/disk"
	"ringlog/engine/disk/backend"
	"ringlog/record"
)

// Everything acknowledged is in the file, in order, with the offsets that were
// assigned, whatever the sizes of the batches: whole chunks, tail blocks that
// are written again, and the way around the ring.
func TestBareFileHoldsWhatWasAcknowledged(t *testing.T) {
	for _, mode := range []string{backend.Auto, backend.Portable} {
		t.Run(mode, func(t *testing.T) {
			directory := t.TempDir()
			const fileBytes, ringBytes, chunk = 8 << 20, 64 << 10, 16 << 10
			ended := make(chan error, 1)
			shard := &bareShard{durable: true}
			ready := make(chan struct{})
			pool := buffer.NewPool(t.Name(), 4<<20)
			go func() { // the disk's owner
				ended <- func() error {
					d, err := backend.Open(directory, mode, backend.Options{})
					if err != nil {
						close(ready)
						return err
					}
					ring, zeros, block := pool.TryGet(ringBytes), pool.TryGet(chunk), pool.TryGet(disk.BlockBytes)
					files, err := (&Preparer{Disk: d}).Make(1, fileBytes, Prepared, zeros.Bytes())
					shard.disk = d
					shard.files = []*bareFile{{
						file: files[0], ring: ring.Bytes(), tailBlock: block.Bytes(), chunk: chunk, writesMax: 3, fileBytes: fileBytes,
					}}
					close(ready)
					if err == nil {
						err = shard.run()
					}
					for _, b := range []*buffer.Buffer{ring, zeros, block} {
						b.Release()
					}
					if closeErr := d.Close(); err == nil {
						err = closeErr
					}
					return err
				}()
			}()
			<-ready

			local, remote := net.Pipe()
			defer local.Close()
			defer remote.Close()
			c := &bareConnection{socket: local, layout: newBareLayout(-1, 1), shard: shard, free: make(chan *bareRequest, 4), wake: make(chan struct{}, 1)}
			for range cap(c.free) {
				c.free <- &bareRequest{connection: c}
			}
			random := rand.New(rand.NewPCG(7, 7))
			var want []byte
			var builder record.Builder
			next := int64(0)
			for range 300 {
				builder.Reset(record.BuilderOptions{})
				for range 1 + random.IntN(3) {
					builder.Append(1, nil, make([]byte, 1+random.IntN(1<<random.IntN(14))))
				}
				built, err := builder.Build()
				if err != nil {
					t.Fatal(err)
				}
				batch := record.Batch(bytes.Clone(built))
				r := <-c.free
				r.batch, r.done = record.Batch(bytes.Clone(batch)), false
				shard.give(r)
				batch.SetBaseOffset(next)
				next += int64(batch.LastOffsetDelta()) + 1
				want = append(want, batch...)
			}
			for range cap(c.free) { // all are acknowledged
				<-c.free
			}
			got, err := os.ReadFile(filepath.Join(directory, fileName(0)))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got[:len(want)], want) {
				t.Errorf("the file does not hold the %d bytes that were acknowledged", len(want))
			}
			if len(want) < 4*ringBytes {
				t.Fatalf("%d bytes do not go around the ring", len(want))
			}
			shard.stop()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			if err := pool.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
