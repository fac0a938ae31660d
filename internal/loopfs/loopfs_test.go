package loopfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestMain(m *testing.M) {
	Isolate()
	os.Exit(m.Run())
}

// TestACutTakesWhatWasNotSynced shows that the instrument does what the tests
// that use it take from it: without this, their green would say nothing.
func TestACutTakesWhatWasNotSynced(t *testing.T) {
	for _, kind := range []Kind{Ext4, XFS} {
		t.Run(string(kind), func(t *testing.T) {
			f := New(t, kind, kind.MinimumBytes())
			kept, lost := filepath.Join(f.Path, "kept"), filepath.Join(f.Path, "lost")
			write(t, kept, 8192, true)
			write(t, lost, 8192, false)
			if err := f.Cut(); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(f.Path, "after"), nil, 0o600); !errors.Is(err, syscall.EIO) {
				t.Errorf("a write after the cut says %v, want EIO", err)
			}
			f.Remount()
			if _, err := os.Stat(lost); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a name that nobody synced is there: %v", err)
			}
			if content, err := os.ReadFile(kept); err != nil || len(content) != 8192 || content[8191] != 'x' {
				t.Errorf("what was synced is gone: %d bytes, %v", len(content), err)
			}

			// And so it goes with a rename, and with the second cut of a device.
			if err := os.Rename(kept, lost); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(f.Cut(), f.Cut()); err != nil {
				t.Fatal(err)
			}
			f.Remount()
			if _, err := os.Stat(kept); err != nil {
				t.Errorf("a rename that nobody synced has happened: %v", err)
			}
		})
	}
}

// write makes a file of letters and syncs the file and its name, or nothing.
func write(t *testing.T, path string, bytes int, sync bool) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	content := make([]byte, bytes)
	for i := range content {
		content[i] = 'x'
	}
	if _, err := file.Write(content); err != nil {
		t.Fatal(err)
	}
	if !sync {
		return
	}
	directory, err := os.Open(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	defer directory.Close()
	if err := errors.Join(file.Sync(), directory.Sync()); err != nil {
		t.Fatal(err)
	}
}
