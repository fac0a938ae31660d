//go:build darwin || freebsd

package gather

import (
	"golang.org/x/sys/unix"

	"ringlog/doctor"
)

func gatherSystem(f *doctor.Facts) {
	if release, err := unix.Sysctl("kern.osrelease"); err == nil {
		f.System.Kernel = release
	}
	if physical, err := unix.SysctlUint64(physicalMemory); err == nil {
		f.Memory.PhysicalBytes = int64(physical)
	}
}

func gatherFileSystem(f *doctor.Facts, at string) {
	state, err := gatherSpace(&f.Directory, at)
	if err != nil {
		return
	}
	f.Directory.FileSystem = unix.ByteSliceToString(state.Fstypename[:])
	f.Directory.MountPoint = unix.ByteSliceToString(state.Mntonname[:])
	f.Directory.MountOptions = []string{"rw"}
	if state.Flags&unix.MNT_RDONLY != 0 {
		f.Directory.MountOptions = []string{"ro"}
	}
}
