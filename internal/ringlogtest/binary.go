package ringlogtest

import (
	"fmt"
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
