package loop

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// vectorsMax is how many pieces one writev may have (IOV_MAX).
const vectorsMax = 1024

// vectors is a loop's list of pieces for writev, kept from one call to the next: x/sys and package
// net would allocate one for each.
type vectors []unix.Iovec

// write writes what the socket takes at once of the parts, which are not empty. It returns fewer
// bytes, or EAGAIN, when that is not everything.
func (v *vectors) write(descriptor int, parts [][]byte) (sent int, err error) {
	for len(parts) > 0 {
		count, bytes := min(len(parts), vectorsMax), 0
		list := (*v)[:0]
		for _, part := range parts[:count] {
			vector := unix.Iovec{Base: unsafe.SliceData(part)}
			vector.SetLen(len(part))
			list = append(list, vector)
			bytes += len(part)
		}
		*v = list
		n, err := list.writev(descriptor)
		clear(list) // hold no reply's memory
		sent += n
		if err != nil || n < bytes {
			return sent, err
		}
		parts = parts[count:]
	}
	return sent, nil
}

// writev is writev(2) without the interruptions.
func (v vectors) writev(descriptor int) (int, error) {
	for {
		n, _, errno := unix.Syscall(unix.SYS_WRITEV, uintptr(descriptor), uintptr(unsafe.Pointer(&v[0])), uintptr(len(v)))
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
			continue
		}
		return 0, errno
	}
}
