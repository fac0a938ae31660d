package commit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ringlog/perf"
)

// procsBeside is how much larger than the number of threads that own a disk GOMAXPROCS
// is at least: the disk's helper and two more, because a thread back from a system
// call otherwise waits for a slice of 10 ms.
const procsBeside = 3

// Run measures one system. It returns no figures without an answer to every
// append that was submitted, at the offset that was its turn.
func Run(ctx context.Context, options Options) (report Report, err error) {
	options.EnsureDefaults()
	report = Report{
		Kind: "commit", Command: strings.Join(os.Args, " "), Parameters: options,
		Environment: perf.CurrentEnvironment(), Started: time.Now(),
	}
	if err := options.Validate(); err != nil {
		return report, err
	}
	if least := max(options.Shards, 1) + procsBeside; runtime.GOMAXPROCS(0) < least {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(least))
	}
	batch, err := newBatch(options.RecordBytes)
	if err != nil {
		return report, err
	}
	if err := os.MkdirAll(options.DataDir, 0o755); err != nil {
		return report, fmt.Errorf("perf: commit: %w", err)
	}
	directory, err := os.MkdirTemp(options.DataDir, "commit-")
	if err != nil {
		return report, fmt.Errorf("perf: commit: %w", err)
	}
	if !options.Keep {
		defer func() { err = errors.Join(err, os.RemoveAll(directory)) }()
	}
	s := shapeOf(&options, len(batch))
	report.BatchBytes, report.GroupAppends, report.AppendsInFlight = len(batch), s.size, s.inFlight()
	report.FileSystem = fileSystem(directory)
	if wanted := options.Partitions * options.InFlight; report.AppendsInFlight < wanted {
		report.Notes = append(report.Notes, fmt.Sprintf("%d appends in flight instead of %d, to stay within %d bytes", report.AppendsInFlight, wanted, options.InFlightBytes))
	}
	m := newMeter(&options, len(batch))
	load := &engineLoad{options: &options, directory: directory, shape: s, batch: batch, meter: m, report: &report}
	if options.System == Engine {
		err = runEngine(ctx, load)
	} else {
		err = runRaw(ctx, &rawLoad{options: &options, directory: directory, shape: s, batch: batch, meter: m, report: &report})
	}
	if err != nil {
		return report, err
	}
	m.fill(&report)
	if load.before != nil {
		report.EngineRun = engineCounts(report.Engine).Since(load.before, report.Seconds)
	}
	return report, nil
}

// fileSystem names the file system of a directory, "" when it is not known.
func fileSystem(path string) string {
	var s unix.Statfs_t
	if unix.Statfs(path, &s) != nil {
		return ""
	}
	switch uint32(s.Type) { // statfs(2)
	case 0xef53:
		return "ext4"
	case 0x58465342:
		return "xfs"
	case 0x9123683e:
		return "btrfs"
	case 0x01021994:
		return "tmpfs"
	}
	return fmt.Sprintf("%#x", uint32(s.Type))
}
