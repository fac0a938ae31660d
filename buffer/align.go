package buffer

import "unsafe"

// alignedSlice returns size bytes of b that start on a huge page. b must be
// one huge page longer than size.
func alignedSlice(b []byte, size int) []byte {
	address := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	skip := int(-address & (hugePageBytes - 1))
	return b[skip : skip+size : skip+size]
}
