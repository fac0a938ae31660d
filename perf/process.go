package perf

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ProcessFigure returns the number behind name in a file of /proc such as
// /proc/self/status, 0 when there is none (proc(5)).
func ProcessFigure(path, name string) int64 {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(content)) {
		if rest, found := strings.CutPrefix(line, name); found {
			if fields := strings.Fields(rest); len(fields) > 0 {
				figure, _ := strconv.ParseInt(fields[0], 10, 64) // 0 when it is no number
				return figure
			}
		}
	}
	return 0
}

// residentBytes is the memory that a process has now, 0 when it is not known.
func residentBytes(pid int) int64 {
	if pid == 0 {
		return 0
	}
	return ProcessFigure(fmt.Sprintf("/proc/%d/status", pid), "VmRSS:") << 10
}
