package loop

import (
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// bell wakes a loop: an eventfd that gnet watches. The loop's end of it is the ear.
type bell struct {
	mu struct {
		sync.RWMutex
		descriptor int // -1 when closed: its number may be somebody else's then
	}
}

// newBell returns a bell and its ear, to be enrolled with gnet.
//
// gnet enrolls sockets only. It looks at the type of a connection, but what it then
// uses is a duplicate of its descriptor: so that of a Unix socket is made to stand for the
// eventfd before. A byte through the socket itself would do, at two and a half times the cost.
func newBell() (*bell, net.Conn, error) {
	event, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, nil, os.NewSyscallError("eventfd", err)
	}
	b := new(bell)
	b.mu.descriptor = event
	ear, err := unixSocket()
	if err != nil {
		b.close()
		return nil, nil, err
	}
	var dupErr error
	raw, err := ear.SyscallConn()
	if err == nil {
		err = raw.Control(func(descriptor uintptr) { dupErr = unix.Dup3(event, int(descriptor), unix.O_CLOEXEC) })
	}
	if err == nil && dupErr != nil {
		err = os.NewSyscallError("dup3", dupErr)
	}
	if err != nil {
		_ = ear.Close()
		b.close()
		return nil, nil, err
	}
	return b, ear, nil
}

// unixSocket returns one end of a pair whose other end is closed.
func unixSocket() (*net.UnixConn, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	_ = unix.Close(pair[1])
	file := os.NewFile(uintptr(pair[0]), "ear")
	defer file.Close() // FileConn has a descriptor of its own
	socket, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	if socket, ok := socket.(*net.UnixConn); ok {
		return socket, nil
	}
	_ = socket.Close()
	return nil, fmt.Errorf("the end of a pair of Unix sockets is a %T: %w", socket, syscall.EPROTOTYPE)
}

// one is what a ring adds to the eventfd's counter; which number does not matter.
var one = []byte{1, 0, 0, 0, 0, 0, 0, 0}

// ring wakes the loop. Any goroutine calls it, also after close. EAGAIN means that the
// loop has yet to hear of many rings before, and needs no other.
func (b *bell) ring() {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.mu.descriptor >= 0 {
		_, _ = unix.Write(b.mu.descriptor, one)
	}
}

func (b *bell) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = unix.Close(b.mu.descriptor)
	b.mu.descriptor = -1
}
