package server

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"ringlog/engine"
	"ringlog/engine/disk"
	"ringlog/net/stream"
)

// Budget is how Config.MemoryBytes is shared out. Each part is an address range that
// costs nothing until it is used.
type Budget struct {
	// FrameBytes is for requests on their way: a quarter. The largest request that can
	// be taken is the largest power of two in its half.
	FrameBytes int64
	// TailBytes is for records that no segment has yet and, after that, for consumers at
	// the end of their logs: what the other two leave, a half.
	TailBytes int64
	// ColdBytes is for what is read back from disk, for consumers that are
	// behind: Config.ColdBytes, a quarter.
	ColdBytes int64
}

// tailWarmBytes of the tail are touched before they are needed: enough for the first
// moments of a load, little for an idle broker.
const tailWarmBytes = 16 << 20

// coldBytesMin is what one consumer behind the tail needs: the share of a read, and as much read ahead.
const coldBytesMin = 8 << 20

func newBudget(total, cold int64) Budget {
	return Budget{FrameBytes: total / 4, TailBytes: total - total/4 - cold, ColdBytes: cold}
}

// Bounds of the default of Config.JournalBytes.
const (
	journalDefaultMin = 32 << 20
	journalDefaultMax = 512 << 20
)

// journalBytes is the default size of the journal of each of so many shards.
func (b Budget) journalBytes(shards int) int64 {
	tail := b.TailBytes / int64(max(shards, 1))
	bytes := min(max(tail/4, journalDefaultMin), journalDefaultMax, tail/2)
	return max(bytes&^(disk.BlockBytes-1), engine.JournalBytesMin)
}

// journalsFit says whether the journals leave as much of the memory for tails as they
// may fill with what the segments do not have yet.
func (b Budget) journalsFit(journalBytes int64, shards int) bool {
	return 2*journalBytes*int64(shards) <= b.TailBytes
}

// frameBytesMax is the largest request that the pool of frames can hold.
func (b Budget) frameBytesMax() int { return stream.FrameBytesMaxOf(b.FrameBytes) }

// requestBytes is what large requests and their answers may hold on the Go heap, which comes on
// top of the budget: a quarter as much as frames may take, within bounds.
func (b Budget) requestBytes() int64 { return min(max(b.FrameBytes/4, requestsMin), requestsMax) }

const (
	requestsMin = 32 << 20
	requestsMax = 256 << 20

	memoryDefaultMin = 256 << 20
	memoryDefaultMax = 4 << 30
)

// defaultMemoryBytes is a quarter of what there is, within bounds.
func defaultMemoryBytes() int64 {
	total := int64(memoryDefaultMax) // four times the default if nobody knows: 1 GiB
	if physical, ok := physicalMemory(); ok {
		total = physical
	}
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if limit, ok := readLimit(path); ok {
			total = min(total, limit)
		}
	}
	return min(max(total/4, memoryDefaultMin), memoryDefaultMax)
}

// readLimit reads a control group's limit; "max" and a missing file are none.
func readLimit(path string) (int64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return limit, err == nil && limit > 0
}

// physicalMemory reads the machine's memory where the system tells it in /proc.
func physicalMemory() (int64, bool) {
	file, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if rest, found := strings.CutPrefix(lines.Text(), "MemTotal:"); found {
			kibibytes, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
			return kibibytes << 10, err == nil
		}
	}
	return 0, false
}

var byteUnits = map[string]int64{
	"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
	"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40,
}

// parseBytes reads "512MiB", "1 GB" and plain numbers of bytes.
func parseBytes(text string) (int64, error) {
	digits := strings.TrimSpace(text)
	end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(digits)
	}
	unit, known := byteUnits[strings.ToLower(strings.TrimSpace(digits[end:]))]
	number, err := strconv.ParseInt(digits[:end], 10, 64)
	if err != nil || !known || number > (1<<63-1)/unit {
		return 0, fmt.Errorf("%q is not a number of bytes, such as 512MiB or 2GiB", text)
	}
	return number * unit, nil
}
