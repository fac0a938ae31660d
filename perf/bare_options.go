package perf

import (
	"errors"
	"fmt"
	"time"
)

// History is what the files of a disk measurement have been through. It decides
// the speed of the disk by factors.
type History string

const (
	// Recycled files were written from end to end before.
	Recycled History = "recycled"
	// Prepared files have their space (fallocate), but were never written.
	Prepared History = "prepared"
)

// BareServerOptions say what the bare server does. Zero means the default that
// the field names.
type BareServerOptions struct {
	// Address to listen at. Default 127.0.0.1:0.
	Address string `json:"address"`
	// DataDir receives one file per partition, removed at the end.
	DataDir string `json:"data_dir"`
	// Partitions is the number of files. Default 1.
	Partitions int `json:"partitions"`
	// Durability is the rule for acknowledgements. Default Durable.
	Durability Durability `json:"durability"`
	// Acks as the requests will ask: it decides nothing but is part of how they
	// are encoded.
	Acks int16 `json:"acks"`
	// Connections and Depth bound the frames that are inside the server at a time.
	Connections int `json:"connections"`
	Depth       int `json:"depth"`
	// FrameBytesMax is the largest frame. Default BatchBytes of a default Load plus 64 KiB.
	FrameBytesMax int `json:"frame_bytes_max"`
	// FileBytes is the space of all files together; each is written from its
	// start again when it is full. Default 1 GiB.
	FileBytes int64 `json:"file_bytes"`
	// History of the files. Default Recycled.
	History History `json:"history"`
	// ChunkBytes and WritesMax shape the writes: default 256 KiB, 8 in flight per file.
	ChunkBytes int `json:"chunk_bytes"`
	WritesMax  int `json:"writes_max"`
	// Disk is the mode of engine/disk/backend: auto, uring, portable or giouring. Default auto.
	Disk string `json:"disk"`
}

// EnsureDefaults fills in what is zero.
func (o *BareServerOptions) EnsureDefaults() {
	setDefault(&o.Address, "127.0.0.1:0")
	setDefault(&o.Partitions, 1)
	setDefault(&o.Durability, Durable)
	setDefault(&o.Connections, 4)
	setDefault(&o.Depth, 8)
	setDefault(&o.FrameBytesMax, 128<<10)
	setDefault(&o.FileBytes, 1<<30)
	setDefault(&o.History, Recycled)
	setDefault(&o.ChunkBytes, 256<<10)
	setDefault(&o.WritesMax, 8)
	setDefault(&o.Disk, "auto")
}

// Validate reports everything that is wrong.
func (o *BareServerOptions) Validate() error {
	var faults []error
	require := func(ok bool, format string, arguments ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("perf: "+format, arguments...))
		}
	}
	require(o.DataDir != "", "the bare server needs a data directory")
	require(o.Partitions > 0 && o.Connections > 0 && o.Depth > 0, "%d partitions, %d connections, depth %d", o.Partitions, o.Connections, o.Depth)
	require(o.FrameBytesMax > 0, "frame bytes %d", o.FrameBytesMax)
	require(o.Durability == Durable || o.Durability == Written, "durability %q", o.Durability)
	require(o.History == Recycled || o.History == Prepared, "history %q is neither %q nor %q", o.History, Recycled, Prepared)
	require(o.ChunkBytes > 0 && o.ChunkBytes&(o.ChunkBytes-1) == 0 && o.ChunkBytes >= 4096, "chunk bytes %d are no power of two from 4096 up", o.ChunkBytes)
	require(o.WritesMax > 0, "%d writes in flight", o.WritesMax)
	return errors.Join(faults...)
}

// BareOptions say what Bare does.
type BareOptions struct {
	Load
	// Server is passed on; what the load decides (partitions, durability,
	// connections, depth, frames, acks) is filled in.
	Server BareServerOptions `json:"server"`
	// Command starts the server process; it has to call ServeBare on its
	// standard input and output. Default: this program with the arguments
	// "perf bare --serve".
	Command []string `json:"-"`
	// StartTimeout is how long the server may take to prepare its files. Default 2 minutes.
	StartTimeout time.Duration `json:"-"`
}

// bareTopic and bareVersion fix the encoding that generator and server share.
const (
	bareTopic   = "bare"
	bareVersion = produceVersionMax
)

// EnsureDefaults fills in what is zero and what follows from the load.
func (o *BareOptions) EnsureDefaults() {
	o.Load.EnsureDefaults()
	s := &o.Server
	s.Partitions, s.Durability, s.Acks = o.Partitions, o.Durability, o.Acks
	s.Connections, s.Depth = o.Connections, o.Depth
	// A batch is at most BatchBytes, or one record and its framing.
	s.FrameBytesMax = max(o.BatchBytes, o.RecordBytes) + 64<<10
	s.EnsureDefaults()
	setDefault(&o.StartTimeout, 2*time.Minute)
}
