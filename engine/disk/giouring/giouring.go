// Package giouring puts the rings of github.com/pawelgaczynski/giouring under
// the Disk of package uring: the same contract and the same steps, with the library's
// queues and system calls in place of our own. Package backend offers it by
// the name "giouring"; it exists to be measured beside the ring that is the
// default, and so that the default's reasons stay checked.
//
// It is built with the tag giouring only, and then needs a linker flag, because the
// library reaches into the runtime by a name that Go has closed since 1.23:
//
//	go build -tags giouring -ldflags=-checklinkname=0 ./cmd/ringlog
//
// What is used of the library is its core: set-up, the two queues, enter, and the
// raw register call. What was found wrong around it on Linux 6.18 is avoided:
//
//   - GetSQE hands out entries with what their last user left, and the prepare
//     functions do not clear all of it (an fsync's flags make the next write fail with
//     EINVAL): every entry is written whole.
//   - Params has no exported field: it is written through a mirror of the same layout.
//   - The functions with a time-out keep only a number of its address: it lives in
//     the ring, on the heap, which does not move.
//   - SubmitAndWaitTimeout may report ETIME when the kernel only took the
//     entries: the clock decides.
//   - RegisterFiles and its kin pass integers of 8 bytes where the kernel reads 4, and drop errors;
//     UnregisterRingFd refuses always; NO_MMAP and NO_SQARRAY give garbage: none
//     is used, and registering saves nothing that could be measured.
package giouring
