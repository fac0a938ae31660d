package disktest

import (
	"os"
	"path/filepath"
	"testing"

	"ringlog/engine/disk"
)

// RunRooted tests what only a Disk on a real directory can show: that no
// symbolic link leads out of it and that its files are the kernel's files.
// open returns a Disk on root.
func RunRooted(t *testing.T, open func(t *testing.T, root string) disk.Disk) {
	t.Run("symbolic links lead nowhere else", func(t *testing.T) {
		outside, root := t.TempDir(), t.TempDir()
		secret := filepath.Join(outside, "secret")
		if err := os.WriteFile(secret, []byte("untouched"), 0o600); err != nil {
			t.Fatal(err)
		}
		for name, target := range map[string]string{"file": secret, "directory": outside, "relative": "../" + filepath.Base(outside)} {
			if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
				t.Fatal(err)
			}
		}
		r := &rig{T: t, disk: open(t, root)}
		defer r.close()
		for _, directory := range []string{"directory", "relative"} {
			inside := directory + "/secret"
			for _, op := range []*disk.Operation{
				{Kind: disk.Open, Path: inside},
				{Kind: disk.Open, Path: directory + "/fresh", Flags: disk.Create},
				{Kind: disk.Rename, Path: inside, NewPath: "stolen"},
				{Kind: disk.Unlink, Path: inside},
				{Kind: disk.SyncDirectory, Path: directory},
				{Kind: disk.MakeDirectory, Path: directory + "/made"},
				{Kind: disk.RemoveDirectory, Path: directory + "/made"},
				{Kind: disk.ReadDirectory, Path: directory},
			} {
				r.refused(op, disk.ErrBadPath)
			}
			r.open("mine", disk.Create)
			r.refused(&disk.Operation{Kind: disk.Rename, Path: "mine", NewPath: inside}, disk.ErrBadPath)
		}
		r.refused(&disk.Operation{Kind: disk.Open, Path: "file", Flags: disk.Truncate}, disk.ErrBadPath)
		if got, err := os.ReadFile(secret); err != nil || string(got) != "untouched" {
			t.Errorf("the file outside is now %q, %v", got, err)
		}
		if names, err := os.ReadDir(outside); err != nil || len(names) != 1 {
			t.Errorf("outside is now %v, %v", names, err)
		}
	})

	t.Run("files are the kernel's", func(t *testing.T) {
		root := t.TempDir()
		r := &rig{T: t, disk: open(t, root)}
		defer r.close()
		data := pattern(blocks(5), 1)
		r.write(r.open("log", disk.Create), 0, data)
		got, err := os.ReadFile(filepath.Join(root, "log"))
		if err != nil || string(got) != string(data) {
			t.Errorf("the kernel reads %d bytes, want the %d written (%v)", len(got), len(data), err)
		}
		// A length that is no whole number of blocks is read to its end.
		if err := os.WriteFile(filepath.Join(root, "odd"), data[:5000], 0o600); err != nil {
			t.Fatal(err)
		}
		odd := &disk.Operation{Kind: disk.Open, Path: "odd"}
		if r.must(odd); odd.Length != 5000 {
			t.Errorf("open says %d bytes, want 5000", odd.Length)
		}
		op := r.must(&disk.Operation{Kind: disk.Read, File: odd.File, Buffer: disk.AlignedBytes(blocks(2))})
		if op.Done != 5000 || string(op.Buffer[:op.Done]) != string(data[:5000]) {
			t.Errorf("read %d bytes of 5000", op.Done)
		}
	})
}
