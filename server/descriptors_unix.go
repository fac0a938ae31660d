//go:build unix

package server

import "syscall"

// descriptorLimit is how many descriptors the process may have. (Go has raised
// the soft limit to the hard one already.)
func descriptorLimit() (limit uint64, known bool) {
	var rlimit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &rlimit); err != nil {
		return 0, false
	}
	return uint64(rlimit.Cur), true
}
