package uring

import (
	"path"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"ringlog/engine/disk"
	"ringlog/engine/disk/internal/system"
)

const (
	// transferBytesMax is asked of one Read or Write: read(2) moves no more than
	// this; what is left is a short completion, as the seam allows.
	transferBytesMax = 0x7ffff000 / disk.BlockBytes * disk.BlockBytes
	// triesMax bounds how often a step is repeated that the kernel broke off
	// (EINTR, EAGAIN), so that a broken driver shows as an error and not as a hang.
	triesMax = 100
)

// step is where an operation on paths stands: what its entry in the ring does.
// Operations on an open file have one step only.
type step uint8

const (
	act           step = iota // the operation itself
	openParent                // openat2 of the directory that holds Path
	openNewParent             // the same of NewPath
	openBuffered              // Open again without O_DIRECT
	syncParent                // fsync of the directory that act opened
)

// slot is one operation in the ring. The kernel reads how, path and newPath
// while a step of it is in flight.
type slot struct {
	index     uint32
	op        *disk.Operation
	target    *openFile // of File
	step      step
	tries     int
	parent    int // descriptor of the directory of Path to be closed, or -1
	newParent int // the same of NewPath
	path      []byte
	newPath   []byte
	how       unix.OpenHow
}

// closeParents gives back the directories of paths. Closing a directory that
// nobody wrote to does not block, so it needs no turn through the ring.
func (s *slot) closeParents() {
	for _, fd := range []int{s.parent, s.newParent} {
		if s.op != nil && fd >= 0 {
			_ = unix.Close(fd) // nothing was written through it
		}
	}
}

// begin puts the first step of s into the ring.
func (d *Disk) begin(s *slot) {
	op := s.op
	switch op.Kind {
	case disk.SyncFilesystem, disk.ReadDirectory, disk.Exchange, disk.FreeSpace:
		d.giveToHelper(s)
	case disk.Rename, disk.Unlink, disk.MakeDirectory, disk.RemoveDirectory:
		// Their opcodes follow symbolic links in the directories above, so these
		// are opened first, by openat2, which stays below the root.
		if directory := path.Dir(op.Path); directory != "." {
			d.openDirectory(s, openParent, directory)
			return
		}
		d.afterParent(s)
	default:
		d.act(s)
	}
}

// giveToHelper lets the helper do the operation with blocking calls.
func (d *Disk) giveToHelper(s *slot) {
	job := helperJob{index: s.index, op: s.op}
	if s.target != nil {
		job.fd = s.target.fd
	}
	d.helper.jobs <- job
}

// push puts an entry for s into the ring.
func (d *Disk) push(s *slot, fd int, e Entry) {
	e.FD, e.UserData = int32(fd), uint64(s.index)
	d.ring.Push(e)
}

// openDirectory puts an openat2 of a directory below the root into the ring.
func (d *Disk) openDirectory(s *slot, next step, name string) {
	flags := uint64(unix.O_PATH)
	if next == act {
		flags = unix.O_RDONLY // to be synced
	}
	s.step, s.path = next, zeroEnded(name)
	s.how = unix.OpenHow{Flags: flags | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	d.openat2(s)
}

// openat2 puts s.how and s.path into the ring.
func (d *Disk) openat2(s *slot) {
	d.push(s, d.rootFD, Entry{
		Opcode: opOpenat2, Address: address(s.path),
		Offset: uint64(uintptr(unsafe.Pointer(&s.how))), Length: uint32(unsafe.Sizeof(s.how)),
	})
}

// afterParent goes on when the directory of Path is open, or is the root.
func (d *Disk) afterParent(s *slot) {
	if directory := path.Dir(s.op.NewPath); s.op.Kind == disk.Rename && directory != "." {
		d.openDirectory(s, openNewParent, directory)
		return
	}
	d.act(s)
}

// act puts the operation itself into the ring.
func (d *Disk) act(s *slot) {
	op := s.op
	s.step = act
	switch op.Kind {
	case disk.Write, disk.Read:
		e := Entry{Opcode: opWrite, Address: address(op.Buffer), Length: uint32(min(len(op.Buffer), transferBytesMax)), Offset: uint64(op.Offset)}
		if op.Kind == disk.Read {
			e.Opcode = opRead
		}
		d.push(s, s.target.fd, e)
	case disk.Flush:
		d.push(s, s.target.fd, Entry{Opcode: opFsync, Flags: fsyncDatasync})
	case disk.Preallocate, disk.ZeroRange:
		e := Entry{Opcode: opFallocate, Offset: uint64(op.Offset), Address: uint64(op.Length)}
		if op.Kind == disk.ZeroRange {
			e.Length = unix.FALLOC_FL_ZERO_RANGE
		}
		d.push(s, s.target.fd, e)
	case disk.Open:
		d.open(s, d.info.Direct)
	case disk.Close:
		d.push(s, s.target.fd, Entry{Opcode: opClose})
	case disk.SyncDirectory:
		d.openDirectory(s, act, op.Path)
	case disk.Rename:
		s.path, s.newPath = zeroEnded(path.Base(op.Path)), zeroEnded(path.Base(op.NewPath))
		d.push(s, d.orRoot(s.parent), Entry{
			Opcode: opRenameat, Address: address(s.path), Offset: address(s.newPath), Length: uint32(d.orRoot(s.newParent)),
		})
	case disk.Unlink, disk.RemoveDirectory:
		s.path = zeroEnded(path.Base(op.Path))
		e := Entry{Opcode: opUnlinkat, Address: address(s.path)}
		if op.Kind == disk.RemoveDirectory {
			e.Flags = unix.AT_REMOVEDIR
		}
		d.push(s, d.orRoot(s.parent), e)
	case disk.MakeDirectory:
		s.path = zeroEnded(path.Base(op.Path))
		d.push(s, d.orRoot(s.parent), Entry{Opcode: opMkdirat, Address: address(s.path), Length: 0o755})
	}
}

// open puts an openat2 of a file into the ring.
func (d *Disk) open(s *slot, direct bool) {
	flags := uint64(unix.O_RDWR | unix.O_CLOEXEC)
	if s.op.Flags&disk.ReadOnly != 0 {
		flags = unix.O_RDONLY | unix.O_CLOEXEC
	}
	if s.op.Flags&disk.Create != 0 {
		flags |= unix.O_CREAT
		s.how.Mode = 0o644
	}
	// open(2): O_EXCL with O_CREAT may have made the file before O_DIRECT was refused.
	if s.op.Flags&disk.Exclusive != 0 && s.step != openBuffered {
		flags |= unix.O_EXCL
	}
	if s.op.Flags&disk.Truncate != 0 {
		flags |= unix.O_TRUNC
	}
	if direct {
		flags |= system.DirectFlag
	}
	s.path = zeroEnded(s.op.Path)
	s.how.Flags, s.how.Resolve = flags, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_MAGICLINKS
	d.openat2(s)
}

// onCompletion takes one completion from the ring: the bell, or a step's end.
func (d *Disk) onCompletion(userData uint64, result int32) {
	if userData == wakerTag {
		d.armWaker()
		return
	}
	s := &d.slots[userData]
	if result < 0 {
		d.onFailure(s, syscall.Errno(-result))
		return
	}
	switch s.step {
	case openParent:
		s.parent = int(result)
		d.afterParent(s)
	case openNewParent:
		s.newParent = int(result)
		d.act(s)
	case syncParent:
		d.finish(s.index, 0, nil)
	case act, openBuffered:
		d.onSuccess(s, int(result))
	}
}

// onSuccess ends s, or begins the step after act.
func (d *Disk) onSuccess(s *slot, result int) {
	switch s.op.Kind {
	case disk.Write, disk.Read:
		d.finish(s.index, result, nil)
	case disk.Open:
		d.finish(s.index, 0, d.register(s.op, result))
	case disk.SyncDirectory:
		s.step, s.parent = syncParent, result
		d.push(s, s.parent, Entry{Opcode: opFsync})
	default:
		d.finish(s.index, 0, nil)
	}
}

// onFailure ends s with cause, unless another way is left.
func (d *Disk) onFailure(s *slot, cause syscall.Errno) {
	kind := s.op.Kind
	switch {
	case (cause == syscall.EINTR || cause == syscall.EAGAIN) && kind != disk.Close && s.tries < triesMax:
		// (A close that was interrupted has closed: close(2).)
		s.tries++
		d.again(s)
		return
	case kind == disk.Open && s.step == act && d.info.Direct && cause == syscall.EINVAL:
		// A file system mounted below the root may refuse what the root's takes.
		s.step = openBuffered
		d.open(s, false)
		return
	case (kind == disk.Preallocate || kind == disk.ZeroRange) && (cause == syscall.EOPNOTSUPP || cause == syscall.ENOSYS),
		kind == disk.MakeDirectory && s.step == act && cause == syscall.EEXIST:
		d.giveToHelper(s) // which knows what replaces it, and whether a directory is there
		return
	}
	d.finish(s.index, 0, s.causeOf(cause))
}

// again repeats the step that s is at.
func (d *Disk) again(s *slot) {
	switch s.step {
	case openParent:
		d.openDirectory(s, openParent, path.Dir(s.op.Path))
	case openNewParent:
		d.openDirectory(s, openNewParent, path.Dir(s.op.NewPath))
	case openBuffered:
		d.open(s, false)
	case syncParent:
		d.push(s, s.parent, Entry{Opcode: opFsync})
	case act:
		d.act(s)
	}
}

// causeOf is what the seam says for an errno of the step that s is at. To
// openat2 below the root EXDEV means that a symbolic link leads out of it; to
// renameat it means another file system.
func (s *slot) causeOf(cause syscall.Errno) error {
	opens := s.step != act || s.op.Kind == disk.Open || s.op.Kind == disk.SyncDirectory
	if cause == syscall.EXDEV && opens {
		return disk.ErrBadPath
	}
	return cause
}

// register gives an opened descriptor its number. fstat of a file that has
// just been opened finds the inode in memory: it does not block.
func (d *Disk) register(op *disk.Operation, fd int) error {
	var status unix.Stat_t
	err := unix.Fstat(fd, &status)
	if err == nil && status.Mode&unix.S_IFMT == unix.S_IFDIR {
		err = syscall.EISDIR
	}
	if err == nil {
		file, ok := d.files.Add(&openFile{path: op.Path, fd: fd})
		if ok {
			op.File, op.Length = file, status.Size
			return nil
		}
		err = syscall.EMFILE
	}
	_ = unix.Close(fd) // the first error is the one to tell
	return err
}

// orRoot is fd, or the root when the path had no directory.
func (d *Disk) orRoot(fd int) int {
	if fd < 0 {
		return d.rootFD
	}
	return fd
}

// zeroEnded is name as the kernel reads it. disk.Operation.Check has refused
// names with a zero byte.
func zeroEnded(name string) []byte { return append([]byte(name), 0) }

// address is where buffer begins, for the kernel; the slot keeps it alive.
func address(buffer []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(buffer)))) }
