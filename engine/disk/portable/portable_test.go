package portable_test

import (
	"testing"

	"ringlog/engine/disk"
	"ringlog/engine/disk/portable"
)

func TestSmoke(t *testing.T) {
	d, err := portable.New(t.TempDir(), portable.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(d.Info())
	op := &disk.Operation{Kind: disk.Open, Path: "a", Flags: disk.Create}
	run := func(op *disk.Operation) {
		d.Submit(op)
		got, err := d.Wait(nil, -1)
		if err != nil || len(got) != 1 || got[0] != op || op.Err != nil {
			t.Fatal(got, err, op.Err)
		}
	}
	run(op)
	b := disk.AlignedBytes(8192)
	b[5] = 7
	run(&disk.Operation{Kind: disk.Write, File: op.File, Buffer: b, Offset: 4096})
	run(&disk.Operation{Kind: disk.SyncFilesystem, File: op.File})
	b2 := disk.AlignedBytes(65536)
	r := &disk.Operation{Kind: disk.Read, File: op.File, Buffer: b2}
	run(r)
	if r.Done != 12288 || b2[4096+5] != 7 {
		t.Fatal(r.Done)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}
