// Package loopfs makes ext4 and xfs file systems on loop devices for tests and
// cuts their power. The tests of internal/cuttest and internal/killtest use it;
// a FileSystem belongs to the test that made it, and only Cut may be called by
// any goroutine.
//
// # A power cut
//
// Cut is the shutdown ioctl (EXT4_IOC_SHUTDOWN, XFS_IOC_GOINGDOWN) with the flag
// that does not even flush the file system's own log: from that moment on
// everything answers EIO. Remount unmounts, mounts again and so replays what of
// the log was on the device. Names, sizes, extents and renames that nobody had
// synced are gone then, and so is what was written to blocks that were never
// committed as written: they read as zeros.
//
// What such a cut cannot take is what the device itself has: a loop device has
// no cache that loses power. A write to blocks that were written and committed
// before survives without a flush, and no sector is ever torn. Package
// engine/disk/crash does these to the engine.
//
// And it takes a moment. A sync that is under way while the file system shuts
// down may find that there is nothing left to sync and answer success (seen on
// ext4 and xfs, with fdatasync and nothing else). So an answer counts as a
// promise only if it came before Cut was called; whatever is asked for after Cut
// has returned must fail.
//
// # Nothing is left behind
//
// Isolate puts the whole test process into a mount namespace of its own; the
// image has no name, and the loop device detaches itself from it. So
// however the process ends, by its end, a panic or a kill, the kernel takes mounts,
// devices and images back, and nobody else ever sees them.
package loopfs
