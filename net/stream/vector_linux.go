package stream

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// vectorCountMax is IOV_MAX.
const vectorCountMax = 1024

// vector is the memory for the list that writev reads.
type vector struct {
	list []unix.Iovec
}

// send writes until the reply is out, a part has to be waited for, or the connection is over. While
// the socket is full it holds no memory.
func (l *lentWrite) send(c *connection) error { return c.raw.Write(l.try) }

// attempt writes what the socket takes; false waits until it takes more.
func (l *lentWrite) attempt(descriptor uintptr) bool {
	for l.lend() {
		n, err := l.vector.write(descriptor, l.reply.Parts[l.part:l.end], l.skip)
		switch err {
		case 0:
			l.wrote(n)
		case unix.EINTR:
		case unix.EAGAIN:
			l.giveBack()
			return false
		default:
			l.err = os.NewSyscallError("writev", err)
			return true
		}
	}
	return true
}

// write hands parts, without the first skip bytes, to one writev.
func (v *vector) write(descriptor uintptr, parts [][]byte, skip int) (int, unix.Errno) {
	v.list = v.list[:0]
	for _, part := range parts {
		part, skip = part[skip:], 0
		if len(part) == 0 {
			continue
		}
		if len(v.list) == vectorCountMax {
			break
		}
		entry := unix.Iovec{Base: unsafe.SliceData(part)}
		entry.SetLen(len(part))
		v.list = append(v.list, entry)
	}
	n, _, err := unix.Syscall(unix.SYS_WRITEV, descriptor, uintptr(unsafe.Pointer(unsafe.SliceData(v.list))), uintptr(len(v.list)))
	runtime.KeepAlive(parts)
	clear(v.list) // hold no reply's memory
	if err != 0 {
		return 0, err
	}
	return int(n), 0
}
