package faultfs

import (
	"os"
	"path"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// FileSystem is a file system that fails on command, mounted at Path.
type FileSystem struct {
	Path string

	mu struct {
		sync.Mutex
		rules  []rule
		met    int
		healed chan struct{} // closed by Heal: what hangs goes on
	}
}

// New mounts a file system over an empty directory until the test ends. Where that is impossible the test is
// skipped with the reason and the remedy.
func New(t testing.TB) *FileSystem {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skipf("faultfs: the test does not run as root; %s", remedy)
	}
	f := &FileSystem{Path: filepath.Join(t.TempDir(), "faulty")}
	f.mu.healed = make(chan struct{})
	behind := t.TempDir()
	if err := os.Mkdir(f.Path, 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := f.root(behind)
	if err != nil {
		t.Fatal(err)
	}
	server, err := fs.Mount(f.Path, root, &fs.Options{
		MountOptions: fuse.MountOptions{DirectMountStrict: true, FsName: "faultfs", Name: "faultfs", MaxWrite: 1 << 20, DisableSplice: true},
	})
	if err != nil {
		t.Skipf("faultfs: mount: %v; %s", err, remedy)
	}
	t.Cleanup(func() {
		f.Heal()
		if err := server.Unmount(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// root makes the node that everything hangs on.
func (f *FileSystem) root(behind string) (fs.InodeEmbedder, error) {
	made, err := fs.NewLoopbackRoot(behind)
	if err != nil {
		return nil, err
	}
	root := &node{LoopbackNode: made.(*fs.LoopbackNode), files: f}
	root.RootData.RootNode = root
	return root, nil
}

// Fail makes an operation fail on files whose names match a pattern of path.Match, until Heal.
func (f *FileSystem) Fail(operation Operation, pattern string, errno syscall.Errno) {
	f.add(rule{operation, pattern, errno})
}

// Hang makes it not be answered until Heal.
func (f *FileSystem) Hang(operation Operation, pattern string) {
	f.add(rule{operation, pattern, 0})
}

func (f *FileSystem) add(r rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.rules = append(f.mu.rules, r)
}

// Heal ends everything that fails or hangs.
func (f *FileSystem) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.rules = nil
	close(f.mu.healed)
	f.mu.healed = make(chan struct{})
}

// Met is how many operations have failed or hung so far.
func (f *FileSystem) Met() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.met
}

// check returns what is to become of an operation on a file of one of these names; it waits as long as that hangs.
func (f *FileSystem) check(operation Operation, names ...string) syscall.Errno {
	f.mu.Lock()
	var met *rule
	for i := range f.mu.rules {
		r := &f.mu.rules[i]
		for _, name := range names {
			if is, _ := path.Match(r.pattern, name); is && r.operation == operation && met == nil {
				met = r
			}
		}
	}
	if met == nil {
		f.mu.Unlock()
		return 0
	}
	f.mu.met++
	errno, healed := met.errno, f.mu.healed
	f.mu.Unlock()
	if errno == 0 {
		<-healed
	}
	return errno
}
