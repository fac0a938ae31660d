package loop

import (
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// bell wakes a loop: a pair of Unix sockets of which the loop watches the other end.
type bell struct {
	socket net.Conn
	raw    syscall.RawConn
	// strike is ringOnce as a func value, made once.
	strike func(descriptor uintptr) bool
}

// newBell returns a bell and the end that its loop is to listen at.
func newBell() (*bell, net.Conn, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	var ends [2]net.Conn
	for i, descriptor := range pair {
		file := os.NewFile(uintptr(descriptor), "bell")
		end, fileErr := net.FileConn(file)
		_ = file.Close() // FileConn has a descriptor of its own
		if fileErr != nil {
			err = fileErr
			continue
		}
		ends[i] = end
	}
	b := &bell{socket: ends[0], strike: ringOnce}
	if err == nil {
		b.raw, err = ends[0].(syscall.Conn).SyscallConn()
	}
	if err != nil {
		for _, end := range ends {
			if end != nil {
				_ = end.Close()
			}
		}
		return nil, nil, err
	}
	return b, ends[1], nil
}

// ring wakes the loop. Any goroutine calls it, also after close: RawConn sees to it
// that the descriptor is this bell's, or nothing happens.
func (b *bell) ring() { _ = b.raw.Write(b.strike) }

var ringByte = []byte{1}

// ringOnce writes one byte. EAGAIN means that the bell has been ringing for long
// and nobody needs another byte; the other errors, that the loop is gone.
func ringOnce(descriptor uintptr) bool {
	_, _ = unix.Write(int(descriptor), ringByte)
	return true
}

func (b *bell) close() { _ = b.socket.Close() }
