package faultfs

import (
	"context"
	"path"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// node is a file or directory that can fail.
type node struct {
	*fs.LoopbackNode
	files *FileSystem
}

var (
	_ fs.NodeWrapChilder = (*node)(nil)
	_ fs.NodeOpener      = (*node)(nil)
	_ fs.NodeCreater     = (*node)(nil)
	_ fs.NodeRenamer     = (*node)(nil)
	_ fs.NodeFsyncer     = (*node)(nil)
)

func (n *node) name() string { return path.Base(n.Path(nil)) }

// WrapChild implements fs.NodeWrapChilder: what is below can fail, too.
func (n *node) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	return &node{LoopbackNode: child.(*fs.LoopbackNode), files: n.files}
}

// Open implements fs.NodeOpener.
func (n *node) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if errno := n.files.check(Open, n.name()); errno != 0 {
		return nil, 0, errno
	}
	handle, _, errno := n.LoopbackNode.Open(ctx, flags&^syscall.O_DIRECT)
	if errno != 0 {
		return nil, 0, errno
	}
	return &file{handle, n}, direct(flags), 0
}

// Create implements fs.NodeCreater.
func (n *node) Create(ctx context.Context, name string, flags uint32, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	if errno := n.files.check(Open, name); errno != 0 {
		return nil, nil, 0, errno
	}
	inode, handle, _, errno := n.LoopbackNode.Create(ctx, name, flags&^syscall.O_DIRECT, mode, out)
	if errno != 0 {
		return nil, nil, 0, errno
	}
	return inode, &file{handle, inode.Operations().(*node)}, direct(flags), 0
}

// direct keeps what is opened without the page cache out of it here, too: what fails must not have been
// answered from memory.
func direct(flags uint32) uint32 {
	if flags&syscall.O_DIRECT != 0 {
		return fuse.FOPEN_DIRECT_IO
	}
	return 0
}

// Rename implements fs.NodeRenamer.
func (n *node) Rename(ctx context.Context, name string, parent fs.InodeEmbedder, to string, flags uint32) syscall.Errno {
	if errno := n.files.check(Rename, name, to); errno != 0 {
		return errno
	}
	return n.LoopbackNode.Rename(ctx, name, parent, to, flags)
}

// Fsync implements fs.NodeFsyncer, for files and directories.
func (n *node) Fsync(ctx context.Context, handle fs.FileHandle, flags uint32) syscall.Errno {
	if errno := n.files.check(Flush, n.name()); errno != 0 {
		return errno
	}
	if f, is := handle.(*file); is {
		return f.FileHandle.(fs.FileFsyncer).Fsync(ctx, flags)
	}
	return 0 // what is behind a directory never loses power
}

// file is an open file that can fail.
type file struct {
	fs.FileHandle
	node *node
}

var (
	_ fs.FileReader    = (*file)(nil)
	_ fs.FileWriter    = (*file)(nil)
	_ fs.FileAllocater = (*file)(nil)
	_ fs.FileGetattrer = (*file)(nil)
	_ fs.FileSetattrer = (*file)(nil)
	_ fs.FileReleaser  = (*file)(nil)
	_ fs.FileFlusher   = (*file)(nil)
)

// Read implements fs.FileReader.
func (f *file) Read(ctx context.Context, data []byte, offset int64) (fuse.ReadResult, syscall.Errno) {
	if errno := f.node.files.check(Read, f.node.name()); errno != 0 {
		return nil, errno
	}
	return f.FileHandle.(fs.FileReader).Read(ctx, data, offset)
}

// Write implements fs.FileWriter.
func (f *file) Write(ctx context.Context, data []byte, offset int64) (uint32, syscall.Errno) {
	if errno := f.node.files.check(Write, f.node.name()); errno != 0 {
		return 0, errno
	}
	return f.FileHandle.(fs.FileWriter).Write(ctx, data, offset)
}

// Allocate implements fs.FileAllocater.
func (f *file) Allocate(ctx context.Context, offset, size uint64, mode uint32) syscall.Errno {
	if errno := f.node.files.check(Allocate, f.node.name()); errno != 0 {
		return errno
	}
	return f.FileHandle.(fs.FileAllocater).Allocate(ctx, offset, size, mode)
}

// Getattr implements fs.FileGetattrer.
func (f *file) Getattr(ctx context.Context, out *fuse.AttrOut) syscall.Errno {
	return f.FileHandle.(fs.FileGetattrer).Getattr(ctx, out)
}

// Setattr implements fs.FileSetattrer.
func (f *file) Setattr(ctx context.Context, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return f.FileHandle.(fs.FileSetattrer).Setattr(ctx, in, out)
}

// Flush implements fs.FileFlusher: a descriptor is closed.
func (f *file) Flush(ctx context.Context) syscall.Errno {
	return f.FileHandle.(fs.FileFlusher).Flush(ctx)
}

// Release implements fs.FileReleaser.
func (f *file) Release(ctx context.Context) syscall.Errno {
	return f.FileHandle.(fs.FileReleaser).Release(ctx)
}
