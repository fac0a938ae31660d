package doctor

import (
	"fmt"
	"strings"
)

// Examine judges the facts. The findings are in a fixed order, from the kernel up to a
// running broker.
func Examine(f *Facts) []Finding {
	var l list
	for _, rule := range []func(*Facts, *list){
		examinePlatform, examineRing, examineSysctl, examineMemlock, examineFiles,
		examineConfig, examineDirectory, examineFileSystem, examineMount, examineDirect, examineDevice, examineSpace, examineInodes,
		examineMemory, examineHugePages, examineOvercommit, examineProcessor, examineClock, examineClockSource,
		examineListener, examineAdvertised, examineBroker, examineMembers, examineHealth, examinePartitions,
	} {
		rule(f, &l)
	}
	return l
}

// bytes writes a number of bytes for people.
func bytes(n int64) string {
	const units = "KMGTPE"
	if n < 1<<10 {
		return fmt.Sprintf("%d bytes", n)
	}
	size, unit := float64(n)/1024, 0
	for size >= 1024 && unit < len(units)-1 {
		size /= 1024
		unit++
	}
	return fmt.Sprintf("%s %ciB", strings.TrimSuffix(fmt.Sprintf("%.1f", size), ".0"), units[unit])
}
