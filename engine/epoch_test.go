package engine

import (
	"context"
	"testing"

	"ringlog/engine/segment"
)

// The manifest may know of an epoch whose batches a power cut took; its offsets
// are then given again under another one. The batches are right (rule 12).
func TestEpochWhoseBatchesWereLost(t *testing.T) {
	r, d := crashRig(t, LogConfig{}, nil)
	ctx := context.Background()
	r.fill(5, 1000) // epoch 0, [0, 10)
	d = d.Crash(3)
	r.step.Abandon()
	name := r.path(segment.ManifestName)
	content, err := d.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := segment.DecodeManifest(content)
	if err != nil {
		t.Fatal(err)
	}
	m.Epochs = []segment.Epoch{{Epoch: 0, Start: 0}, {Epoch: 1, Start: 12}}
	if err := d.WriteFile(name, m.Encode()); err != nil {
		t.Fatal(err)
	}
	r.on(d)
	r.start()
	r.open() // leads under epoch 1
	if err := r.step.Lead(ctx, r.id, 2); err != nil {
		t.Fatal(err)
	}
	all := r.fill(5, 1000) // epoch 2, [10, 20)
	d = r.again(d, 4)      // before any manifest was written
	for _, row := range [][3]int64{{0, 0, 10}, {1, 0, 10}, {2, 2, 20}} {
		if epoch, end, err := r.step.EpochEnd(ctx, r.id, int32(row[0])); err != nil || int64(epoch) != row[1] || end != row[2] {
			t.Errorf("epoch %d ends as %d at %d (%v)", row[0], epoch, end, err)
		}
	}
	r.close() // writes a manifest that can be read
	r.on(d.Kill(5))
	r.start()
	r.open()
	r.expect(all, r.readAll(10))
}
