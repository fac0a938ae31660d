package buffer

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// vectorCountMax is IOV_MAX.
const vectorCountMax = 1024

// Vector is the list of slices that writev reads, kept from call to call: unix.Writev makes
// a new one each time. The zero Vector is ready. Not safe for concurrent use.
type Vector struct {
	list []unix.Iovec
}

// Write hands parts, without the first skip bytes, to one writev of the descriptor, which should not
// block, and returns how much was taken. Their memory must stay for the time of the call only.
func (v *Vector) Write(descriptor uintptr, parts [][]byte, skip int) (int, error) {
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
	n, _, errno := unix.Syscall(unix.SYS_WRITEV, descriptor, uintptr(unsafe.Pointer(unsafe.SliceData(v.list))), uintptr(len(v.list)))
	runtime.KeepAlive(parts)
	clear(v.list) // hold nobody's memory
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
