//go:build linux || darwin || freebsd

package gather

import (
	"golang.org/x/sys/unix"

	"ringlog/doctor"
)

func gatherLimits(f *doctor.Facts) {
	f.Limits.Files = hardLimit(unix.RLIMIT_NOFILE)
	f.Limits.MemlockBytes = hardLimit(unix.RLIMIT_MEMLOCK)
}

// hardLimit is how far a resource limit may be raised; 0 when nobody tells.
func hardLimit(resource int) int64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(resource, &limit); err != nil {
		return 0
	}
	if uint64(limit.Max) >= uint64(doctor.Unlimited) {
		return doctor.Unlimited
	}
	return int64(limit.Max)
}
