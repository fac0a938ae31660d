package ringlogtest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// binary is the program under test, built when the first test asks for it.
var binary struct {
	once      sync.Once
	directory string
	path      string
	err       error
}

// Main runs the tests of a package and removes what was built for them.
func Main(m *testing.M) {
	code := m.Run()
	if binary.directory != "" {
		os.RemoveAll(binary.directory)
	}
	os.Exit(code)
}

// Binary returns the path of the built program.
func Binary(t testing.TB) string {
	t.Helper()
	binary.once.Do(build)
	if binary.err != nil {
		t.Fatal(binary.err)
	}
	return binary.path
}

func build() {
	if binary.err = noteSources(); binary.err != nil {
		return
	}
	binary.directory, binary.err = os.MkdirTemp("", "ringlog-binary-")
	if binary.err != nil {
		return
	}
	binary.path = filepath.Join(binary.directory, "ringlog")
	arguments := []string{"build", "-o", binary.path}
	if raceDetector {
		arguments = append(arguments, "-race")
	}
	output, err := exec.Command("go", append(arguments, "ringlog/cmd/ringlog")...).CombinedOutput()
	if err != nil {
		binary.err = fmt.Errorf("building the program under test: %w\n%s", err, output)
	}
}

// noteSources lists every directory of the module. `go test` keeps note of what a test
// opens; of a binary that a test has built it sees nothing, and would go on
// to show the result of one that was built from other sources.
func noteSources() error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	for {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		above := filepath.Dir(root)
		if above == root {
			return errors.New("ringlogtest: there is no go.mod above the package under test")
		}
		root = above
	}
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // it went meanwhile
			return nil
		}
		if err == nil && entry.IsDir() && path != root && (entry.Name()[0] == '.' || entry.Name() == "bin") {
			return fs.SkipDir
		}
		return err
	})
}
