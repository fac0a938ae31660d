package ringlogtest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// portMin and portMax lie below the ports that systems give to outgoing
// connections. A client that dials such a port again and again while its
// broker is down may be given that very port and connect to itself.
const portMin, portMax = 10_000, 32_000

// TakePorts returns loopback ports that nobody listens on. No other test that
// takes its ports here, in whatever process, gets them before this test is
// over: a port is free while its broker is dead, but it is not to be had.
func TakePorts(t testing.TB, count int) []int {
	t.Helper()
	directory := filepath.Join(os.TempDir(), "ringlogtest-ports")
	if err := os.MkdirAll(directory, 0o777); err != nil {
		t.Fatal(err)
	}
	var ports []int
	for range 1000 {
		port := portMin + rand.IntN(portMax-portMin)
		release, taken := takePort(filepath.Join(directory, fmt.Sprint(port)), port)
		if !taken {
			continue
		}
		t.Cleanup(release)
		if ports = append(ports, port); len(ports) == count {
			return ports
		}
	}
	t.Fatal("ringlogtest: no free port was found")
	return nil
}

// takePort locks the file that stands for a port, and tries the port. The lock
// ends with the process if not before.
func takePort(path string, port int) (release func(), taken bool) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, false
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		return nil, false
	}
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		file.Close()
		return nil, false
	}
	listener.Close()
	return func() { file.Close() }, true
}
