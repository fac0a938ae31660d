package gather

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// What Linux writes into /proc and /sys, read; apart from the files themselves, so that it is
// tested everywhere.

// mount is one line of mountinfo (proc(5)).
type mount struct {
	device  string // major:minor
	point   string
	options []string // of the mount, then those of the file system
	kind    string   // type of the file system
	source  string   // such as /dev/sda1
}

// mountOf finds the mount that an absolute path without symbolic links is on.
func mountOf(mountinfo, at string) (found mount, ok bool) {
	for line := range strings.Lines(mountinfo) {
		m, whole := parseMount(line)
		// The last of those with the longest path covers the others.
		if whole && under(m.point, at) && len(m.point) >= len(found.point) {
			found, ok = m, true
		}
	}
	return found, ok
}

// parseMount reads a line such as
//
//	36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
func parseMount(line string) (m mount, ok bool) {
	before, after, found := strings.Cut(line, " - ")
	of, on := strings.Fields(before), strings.Fields(after)
	if !found || len(of) < 6 || len(on) < 2 {
		return mount{}, false
	}
	m = mount{device: of[2], point: unescape(of[4]), options: strings.Split(of[5], ","), kind: on[0], source: unescape(on[1])}
	if len(on) > 2 {
		for option := range strings.SplitSeq(on[2], ",") {
			// That the file system could be written to says nothing of this mount.
			if option != "rw" && !slices.Contains(m.options, option) {
				m.options = append(m.options, option)
			}
		}
	}
	return m, true
}

// unescape turns \040 and the like into what they stand for.
func unescape(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if code, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// under says whether a path is a directory or lies below it.
func under(directory, at string) bool {
	return directory == "/" || at == directory || strings.HasPrefix(at, directory+"/")
}

// seccompMode reads /proc/self/status: 0 none, 1 strict, 2 a filter, -1 not said.
func seccompMode(status string) int {
	for line := range strings.Lines(status) {
		if rest, found := strings.CutPrefix(line, "Seccomp:"); found {
			if mode, err := strconv.Atoi(strings.TrimSpace(rest)); err == nil {
				return mode
			}
		}
	}
	return -1
}

// meminfoBytes reads a line of /proc/meminfo; 0 when it is not there.
func meminfoBytes(meminfo, name string) int64 {
	for line := range strings.Lines(meminfo) {
		if rest, found := strings.CutPrefix(line, name+":"); found {
			kibibytes, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err == nil {
				return kibibytes << 10
			}
		}
	}
	return 0
}

// chosen returns the word in brackets: "always [madvise] never" is madvise.
func chosen(text string) string {
	_, rest, _ := strings.Cut(text, "[")
	word, _, found := strings.Cut(rest, "]")
	if !found {
		return ""
	}
	return word
}

// controlGroups returns the group of /proc/self/cgroup, version 2, and those that it lies in, the
// innermost first. In a container the outermost is the container's own.
func controlGroups(cgroup string) (groups []string) {
	for line := range strings.Lines(cgroup) {
		if group, found := strings.CutPrefix(strings.TrimSpace(line), "0::"); found {
			for group = path.Clean("/" + group); ; group = path.Dir(group) {
				groups = append(groups, group)
				if group == "/" {
					return groups
				}
			}
		}
	}
	return []string{"/"}
}
