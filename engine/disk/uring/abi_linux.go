package uring

import "unsafe"

// The kernel's interface, from io_uring_setup(2) and the uapi header
// linux/io_uring.h. Only what this package uses is here.

// Setup flags.
const (
	setupCQSize       = 1 << 3
	setupClamp        = 1 << 4
	setupRingDisabled = 1 << 6
	setupSubmitAll    = 1 << 7
	setupCoopTaskrun  = 1 << 8
	setupTaskrunFlag  = 1 << 9
	setupSingleIssuer = 1 << 12
	setupDeferTaskrun = 1 << 13
)

// Features that the kernel reports.
const (
	featureSingleMmap   = 1 << 0
	featureNoDrop       = 1 << 1
	featureSubmitStable = 1 << 2
	featureExtArg       = 1 << 8

	featuresNeeded = featureSingleMmap | featureNoDrop | featureSubmitStable | featureExtArg
)

// Flags of io_uring_enter.
const (
	enterGetEvents = 1 << 0
	enterExtArg    = 1 << 3
)

// Flags that the kernel sets in the submission ring.
const (
	sqCQOverflow = 1 << 1
	sqTaskrun    = 1 << 2
)

// Opcodes of io_uring_register.
const (
	registerProbe       = 8
	registerEnableRings = 12
)

// Offsets for mmap.
const (
	offsetRings   = 0
	offsetEntries = 0x10000000
)

// Opcodes: what a submission entry asks for.
const (
	opNop       = 0
	opFsync     = 3
	opFallocate = 17
	opClose     = 19
	opRead      = 22
	opWrite     = 23
	opOpenat2   = 28
	opRenameat  = 35
	opUnlinkat  = 36
	opMkdirat   = 37
)

// opcodesNeeded are those that Probe asks the kernel for, with the name for its sentence.
var opcodesNeeded = map[uint8]string{
	opNop: "NOP", opFsync: "FSYNC", opFallocate: "FALLOCATE", opClose: "CLOSE", opRead: "READ",
	opWrite: "WRITE", opOpenat2: "OPENAT2", opRenameat: "RENAMEAT", opUnlinkat: "UNLINKAT", opMkdirat: "MKDIRAT",
}

// fsyncDatasync makes opFsync an fdatasync.
const fsyncDatasync = 1 << 0

// submissionEntry is struct io_uring_sqe.
type submissionEntry struct {
	opcode      uint8
	flags       uint8
	ioPriority  uint16
	fd          int32
	offset      uint64 // or a second address
	address     uint64
	length      uint32
	opFlags     uint32
	userData    uint64
	bufferIndex uint16
	personality uint16
	fileIndex   int32
	address3    uint64
	_           uint64
}

// completionEntry is struct io_uring_cqe.
type completionEntry struct {
	userData uint64
	result   int32
	flags    uint32
}

// parameters is struct io_uring_params.
type parameters struct {
	sqEntries    uint32
	cqEntries    uint32
	flags        uint32
	sqThreadCPU  uint32
	sqThreadIdle uint32
	features     uint32
	wqFD         uint32
	_            [3]uint32
	sqOffsets    submissionOffsets
	cqOffsets    completionOffsets
}

// submissionOffsets is struct io_sqring_offsets.
type submissionOffsets struct {
	head, tail, ringMask, ringEntries, flags, dropped, array, _ uint32
	userAddress                                                 uint64
}

// completionOffsets is struct io_cqring_offsets.
type completionOffsets struct {
	head, tail, ringMask, ringEntries, overflow, entries, flags, _ uint32
	userAddress                                                    uint64
}

// waitArgument is struct io_uring_getevents_arg.
type waitArgument struct {
	signalMask     uint64
	signalMaskSize uint32
	_              uint32
	timespec       uint64 // address of a timespec, or 0 to wait for ever
}

// timespec is struct __kernel_timespec.
type timespec struct {
	seconds     int64
	nanoseconds int64
}

// probeAnswer is struct io_uring_probe with its operations.
type probeAnswer struct {
	lastOp     uint8
	opsLength  uint8
	_          uint16
	_          [3]uint32
	operations [256]struct {
		op    uint8
		_     uint8
		flags uint16 // bit 0: supported
		_     uint32
	}
}

// The sizes are the kernel's; each line fails to compile when one differs.
var (
	_ [unsafe.Sizeof(submissionEntry{}) - 64]struct{}
	_ [64 - unsafe.Sizeof(submissionEntry{})]struct{}
	_ [unsafe.Sizeof(completionEntry{}) - 16]struct{}
	_ [16 - unsafe.Sizeof(completionEntry{})]struct{}
	_ [unsafe.Sizeof(parameters{}) - 120]struct{}
	_ [120 - unsafe.Sizeof(parameters{})]struct{}
	_ [unsafe.Sizeof(waitArgument{}) - 24]struct{}
	_ [24 - unsafe.Sizeof(waitArgument{})]struct{}
)
