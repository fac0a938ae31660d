package doctor

import (
	"fmt"
	"strconv"
	"strings"
)

// Kernels: the ring that the disk needs came with the first, and the second stopped to
// count a ring's own memory as locked.
var (
	kernelOfRing    = version{5, 15}
	kernelOfMemlock = version{5, 12}
)

// version is the first two numbers of a kernel's release.
type version struct{ major, minor int }

// parseVersion reads "6.1.0-18-amd64"; ok is false for what does not begin so.
func parseVersion(release string) (v version, ok bool) {
	major, rest, found := strings.Cut(release, ".")
	if !found {
		return version{}, false
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(rest)
	}
	var errMajor, errMinor error
	v.major, errMajor = strconv.Atoi(major)
	v.minor, errMinor = strconv.Atoi(rest[:end])
	return v, errMajor == nil && errMinor == nil
}

func (v version) before(w version) bool {
	return v.major < w.major || v.major == w.major && v.minor < w.minor
}

func examinePlatform(f *Facts, l *list) {
	const check = "platform"
	where := strings.TrimSpace(f.System.OS + "/" + f.System.Arch + " " + f.System.Kernel)
	if f.System.Container != "" {
		where += ", in a container (" + f.System.Container + ")"
	}
	kernel, known := parseVersion(f.System.Kernel)
	switch {
	case f.System.OS != "linux":
		l.warn(check, where+": there are no io_uring and no event loops",
			"the broker keeps its promise with ordinary system calls and a goroutine for each connection, which is slower; it is tested there less",
			"good for development; run what has to be fast on Linux 5.15 or later")
	case known && kernel.before(kernelOfRing):
		l.warn(check, where+": older than Linux 5.15",
			"its io_uring lacks operations that the disk needs, so ordinary system calls are used: more threads, more waiting",
			"upgrade the kernel to 5.15 or later; 6.1 and later are what is measured")
	default:
		l.ok(check, "%s", where)
	}
}

func examineRing(f *Facts, l *list) {
	const check = "io"
	r := &f.Ring
	switch {
	case f.Config.Fault != "":
	case r.OpenError != "":
		l.fail(check, "the disk cannot be opened: "+r.OpenError,
			"the broker does not start with io="+f.Config.IO, ringRemedy(f)+"; or leave io at auto, which takes ordinary system calls then")
	case r.Backend == "uring" || r.Backend == "giouring":
		l.ok(check, "%s: %s", r.Backend, orElse(r.Reason, "the setting io asks for it"))
	case r.Refusal != "" && f.Config.IO != "portable" && f.System.OS == "linux":
		l.warn(check, "ordinary system calls instead of io_uring: "+r.Refusal,
			"the promise is the same; a commit costs more CPU and more threads", ringRemedy(f))
	case r.Backend != "":
		l.ok(check, "%s: %s", r.Backend, orElse(r.Reason, "the setting io asks for it"))
	}
}

// ringRemedy says how a ring is to be had.
func ringRemedy(f *Facts) string {
	r := &f.Ring
	kernel, known := parseVersion(f.System.Kernel)
	switch {
	case f.System.OS != "linux":
		return "io_uring is Linux's alone"
	case known && kernel.before(kernelOfRing):
		return "upgrade the kernel to 5.15 or later"
	case r.Disabled > 0:
		return fmt.Sprintf("kernel.io_uring_disabled is %d: set it to 0 (sysctl -w kernel.io_uring_disabled=0, and in /etc/sysctl.d), on the host when this is a container", r.Disabled)
	case r.Seccomp == 2 || f.System.Container != "":
		return "allow io_uring_setup, io_uring_enter and io_uring_register in the container's seccomp profile (docker run --security-opt seccomp=PROFILE.json; Docker's own profile forbids them since 25.0)"
	case strings.Contains(r.Refusal, "locked memory"):
		return "raise the limit of locked memory: ulimit -l, LimitMEMLOCK of a systemd unit, --ulimit memlock of a container"
	case strings.Contains(r.Refusal, "descriptor"):
		return "raise the limit of open files: ulimit -n"
	}
	return "look whether a security module or a sandbox forbids io_uring_setup(2)"
}

func examineSysctl(f *Facts, l *list) {
	if f.Ring.Disabled == 1 && f.Ring.Refusal == "" && f.System.OS == "linux" {
		l.warn("sysctl", "kernel.io_uring_disabled is 1 and a ring was granted to this user",
			"it is granted to the group kernel.io_uring_group and to CAP_SYS_ADMIN only: a broker of another user falls back to ordinary system calls",
			"run doctor as the broker's user, or set kernel.io_uring_disabled to 0")
	}
}

func examineMemlock(f *Facts, l *list) {
	const check = "memlock"
	kernel, known := parseVersion(f.System.Kernel)
	if f.System.OS != "linux" || f.Limits.MemlockBytes == 0 {
		return
	}
	const ringBytes = 64 << 10 // what a ring of 256 entries takes, with room
	switch limit := f.Limits.MemlockBytes; {
	case known && kernel.before(kernelOfMemlock) && limit < ringBytes:
		l.warn(check, "at most "+bytes(limit)+" may be locked", "this kernel counts a ring as locked memory and refuses one beyond the limit",
			"ulimit -l 8192, LimitMEMLOCK=8M of a systemd unit, --ulimit memlock=8388608 of a container")
	case limit == Unlimited:
		l.ok(check, "unlimited")
	default:
		l.ok(check, "%s; kernels since 5.12 do not count rings, and nothing else here is locked", bytes(limit))
	}
}

func examineFiles(f *Facts, l *list) {
	const check = "files"
	limit, c := f.Limits.Files, &f.Config
	switch {
	case limit == 0 || c.Files == 0:
	case limit < c.FilesMin:
		l.warn(check, fmt.Sprintf("at most %d files may be open, and clients alone may take %d with what the broker needs", limit, c.FilesMin),
			"with all connections in use logs cannot open their segments: reads and new segments wait or fail",
			fmt.Sprintf("ulimit -n %d, LimitNOFILE=%d of a systemd unit, --ulimit nofile=%d of a container; or lower max.connections", c.Files, c.Files, c.Files))
	case limit < c.Files:
		l.warn(check, fmt.Sprintf("at most %d files may be open; %d would do for everything", limit, c.Files),
			"fewer segments stay open: reads that jump between many logs open and close files", fmt.Sprintf("ulimit -n %d", c.Files))
	case limit == Unlimited:
		l.ok(check, "no limit; %d may be needed", c.Files)
	default:
		l.ok(check, "%d may be open, %d may be needed", limit, c.Files)
	}
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}
