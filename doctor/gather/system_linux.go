package gather

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"ringlog/doctor"
)

func gatherSystem(f *doctor.Facts) {
	var name unix.Utsname
	if err := unix.Uname(&name); err == nil {
		f.System.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	f.System.Container = container()
	f.Ring.Disabled = readNumber("/proc/sys/kernel/io_uring_disabled")
	f.Ring.Seccomp = seccompMode(readText("/proc/self/status"))
	meminfo := readText("/proc/meminfo")
	f.Memory.PhysicalBytes, f.Memory.AvailableBytes = meminfoBytes(meminfo, "MemTotal"), meminfoBytes(meminfo, "MemAvailable")
	f.Memory.Overcommit = readNumber("/proc/sys/vm/overcommit_memory")
	f.Memory.HugePages = chosen(readText("/sys/kernel/mm/transparent_hugepage/enabled"))
	groups := controlGroups(readText("/proc/self/cgroup"))
	f.Memory.GroupBytes = groupMemory(groups)
	f.Processor.Quota = groupProcessors(groups)
	f.Clock.Source = readText("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	var clock unix.Timex // modes 0: only asks
	if _, err := unix.Adjtimex(&clock); err == nil {
		f.Clock.Synchronised = doctor.AnswerOf(clock.Status&unix.STA_UNSYNC == 0)
	}
}

func gatherFileSystem(f *doctor.Facts, at string) {
	d := &f.Directory
	if _, err := gatherSpace(d, at); err != nil {
		return
	}
	m, found := mountOf(readText("/proc/self/mountinfo"), at)
	if !found {
		return
	}
	d.FileSystem, d.MountPoint, d.MountOptions = m.kind, m.point, m.options
	device := filepath.Join("/sys/dev/block", m.device)
	if _, err := os.Stat(device); err != nil { // some file systems have a number of their own
		source, err := filepath.EvalSymlinks(m.source)
		if err != nil {
			return
		}
		device = filepath.Join("/sys/class/block", filepath.Base(source))
	}
	if device, err := filepath.EvalSymlinks(device); err == nil {
		gatherDevice(d, device)
	}
}

// gatherDevice reads what sysfs has of a block device; a partition is of the device above it.
func gatherDevice(d *doctor.Directory, device string) {
	if _, err := os.Stat(filepath.Join(device, "partition")); err == nil {
		device = filepath.Dir(device)
	}
	d.Device = filepath.Base(device)
	d.WriteCache = readText(filepath.Join(device, "queue/write_cache"))
	switch readText(filepath.Join(device, "queue/rotational")) {
	case "1":
		d.Rotational = doctor.Yes
	case "0":
		d.Rotational = doctor.No
	}
}

// container names what kind of container this process is in, as far as it shows.
func container() string {
	if os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		return "kubernetes"
	}
	for _, mark := range [][2]string{{"/.dockerenv", "docker"}, {"/run/.containerenv", "podman"}} {
		if _, err := os.Stat(mark[0]); err == nil {
			return mark[1]
		}
	}
	if name := readText("/run/systemd/container"); name != "" {
		return name
	}
	return os.Getenv("container") // as lxc, systemd-nspawn and podman set it
}

// groupMemory is the least limit of memory of the control groups, 0 for none.
func groupMemory(groups []string) (limit int64) {
	paths := []string{"/sys/fs/cgroup/memory/memory.limit_in_bytes"} // version 1
	for _, group := range groups {
		paths = append(paths, filepath.Join("/sys/fs/cgroup", group, "memory.max"))
	}
	for _, path := range paths {
		bytes, err := strconv.ParseInt(readText(path), 10, 64)
		if err == nil && bytes > 0 && bytes < 1<<60 && (limit == 0 || bytes < limit) {
			limit = bytes
		}
	}
	return limit
}

// groupProcessors is the least share of CPUs that the control groups grant, 0 for all.
func groupProcessors(groups []string) (share float64) {
	for _, group := range groups {
		quota, period, _ := strings.Cut(readText(filepath.Join("/sys/fs/cgroup", group, "cpu.max")), " ")
		share = lesser(share, quota, period)
	}
	return lesser(share, readText("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), readText("/sys/fs/cgroup/cpu/cpu.cfs_period_us")) // version 1
}

// lesser is share or quota through period, whichever is less; 0 and what is no number
// are no limit.
func lesser(share float64, quota, period string) float64 {
	of, errOf := strconv.ParseFloat(quota, 64)
	in, errIn := strconv.ParseFloat(period, 64)
	if errOf != nil || errIn != nil || of <= 0 || in <= 0 || share > 0 && share <= of/in {
		return share
	}
	return of / in
}

func readText(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// readNumber reads a file with one number; -1 when there is none.
func readNumber(path string) int {
	n, err := strconv.Atoi(readText(path))
	if err != nil {
		return -1
	}
	return n
}
