package loopfs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// isolatedVariable marks a process that runs in a mount namespace of its own.
const isolatedVariable = "RINGLOG_LOOPFS_ISOLATED"

// errIsolation says why this process may not mount; nil when it may.
var errIsolation = errors.New("loopfs: the test package does not call Isolate")

// Isolate is called first in the TestMain of a package that uses New. It runs
// the test process again in a mount namespace of its own and ends this one with
// its result; in that second process, and where there cannot be one, it returns.
func Isolate() {
	if os.Getenv(isolatedVariable) != "" {
		errIsolation = nil
		return
	}
	if os.Geteuid() != 0 {
		errIsolation = errors.New("loopfs: the test does not run as root")
		return
	}
	runtime.LockOSThread() // the child lives as long as the thread that started it
	defer runtime.UnlockOSThread()
	again := exec.Command("/proc/self/exe", os.Args[1:]...)
	again.Args[0] = os.Args[0]
	again.Env = append(os.Environ(), isolatedVariable+"=1")
	again.Stdin, again.Stdout, again.Stderr = os.Stdin, os.Stdout, os.Stderr
	again.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := again.Start(); err != nil {
		errIsolation = fmt.Errorf("loopfs: a mount namespace is refused: %w", err)
		return
	}
	again.Wait()
	if code := again.ProcessState.ExitCode(); code >= 0 {
		os.Exit(code)
	}
	fmt.Fprintln(os.Stderr, "loopfs: the tests were ended:", again.ProcessState)
	os.Exit(1)
}
