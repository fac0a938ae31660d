package loop_test

import (
	"io"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"ringlog/frontend/frontendtest"
	"ringlog/net/stream"
)

// Scenario 51: when descriptors run out those who are connected are served as before, and those who
// come are when there are some again. gnet's own acceptor would end every loop.
func TestLoopsOutliveALackOfDescriptors(t *testing.T) {
	l := listen(t, &frontendtest.Lines{}, stream.Options{})
	before := dial(t, l)
	frontendtest.SendLines(t, before, frontendtest.Line(10))
	frontendtest.ExpectLineReplies(t, before, 1)

	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	comer, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(comer), "comer")
	defer file.Close()
	var spent []int
	tight := limit
	tight.Cur = 64
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &tight); err != nil {
		t.Fatal(err)
	}
	for {
		descriptor, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			break
		}
		spent = append(spent, descriptor)
	}
	address := l.Addr().(*net.TCPAddr)
	if err := unix.Connect(comer, &unix.SockaddrInet4{Port: address.Port, Addr: [4]byte(address.IP.To4())}); err != nil {
		t.Fatal(err)
	}
	frontendtest.Await(t, "accepting fails", func() bool { return l.Metrics().AcceptErrors.Load() > 0 })
	for range 20 {
		frontendtest.SendLines(t, before, frontendtest.Line(10))
		frontendtest.ExpectLineReplies(t, before, 1)
	}
	// A connection that has to move now cannot.
	frontendtest.SendLines(t, before, frontendtest.Line(64 << 10)[:100])
	frontendtest.ExpectEnd(t, before)
	for _, descriptor := range spent {
		_ = unix.Close(descriptor)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write(frontendtest.Line(10)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(file, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
}
