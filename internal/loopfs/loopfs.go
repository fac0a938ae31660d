package loopfs

// Kind names a kind of file system, as mount(8) spells it.
type Kind string

// The kinds that can be cut.
const (
	Ext4 Kind = "ext4"
	XFS  Kind = "xfs"
)

// MinimumBytes is the smallest size of a file system of the kind that its
// maker takes without complaint.
func (k Kind) MinimumBytes() int64 {
	if k == XFS {
		return 300 << 20
	}
	return 64 << 20
}

// remedy is said whenever a test that needs a file system of its own is skipped.
const remedy = "file systems on loop devices need Linux, root (CAP_SYS_ADMIN), /dev/loop-control, e2fsprogs and xfsprogs: " +
	"run scripts/install-test-tools.sh and then the test as root, outside of containers that forbid mounts"
