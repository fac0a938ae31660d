package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"ringlog/dump"
	"ringlog/raftctl"
	"ringlog/server"
)

// dumper is one invocation of dump.
type dumper struct {
	*application
	dataDir string
	from    int64
	to      int64
	limit   int64
	records bool
	hex     bool
	verify  bool
	live    bool
	shown   int64 // batches or records
}

func newDump(app *application) *cobra.Command {
	d := &dumper{application: app}
	command := &cobra.Command{
		Use:   "dump [TOPIC | TOPIC-PARTITION | LOG-ID | FILE]...",
		Short: "Look into a data directory, and verify it, without a broker",
		Long: `Look into a data directory without a broker, and change nothing.

Without arguments: what it holds. With the name of a topic, of a partition (orders-3) or of a log's
directory: its batches, those that only the commit journal has yet included; --records unpacks
them, --hex names every byte. With a file of a data directory: what is in it, whichever it is:
segment, index, log.meta, snapshot, checkpoint, placement, journal, metadata.db.

--verify reads everything and holds it against everything else: checksums, offsets without gaps,
leader epochs, log.meta against segments, indexes against batches, the journal against the ends
of logs, metadata against directories. It names each damaged range with file, position, offsets,
and what to do, and ends with exit code 6. With --records it unpacks every record as well.

A directory that a broker uses is refused. With --live it is read all the same: what is being
written meanwhile may look torn, so the ends of logs and the journal are not judged.`,
		Example: `  ringlog dump --data-dir ./data
  ringlog dump --verify
  ringlog dump orders-0 --records --from 100 --limit 10
  ringlog dump ./data/logs/shard-0.checkpoint --hex
  ringlog dump orders --live --json | jq .base_offset`,
	}
	flags := command.Flags()
	flags.SortFlags = false
	flags.StringVar(&d.dataDir, "data-dir", "./data", "the broker's data `directory`")
	flags.BoolVar(&d.records, "records", false, "show records instead of batches; with --verify, unpack every record")
	flags.Int64Var(&d.from, "from", 0, "first `offset` to show")
	flags.Int64Var(&d.to, "to", -1, "`offset` to stop before; -1 is the end")
	flags.Int64Var(&d.limit, "limit", 0, "how many batches, records or frames to show at most; 0 is all")
	flags.BoolVar(&d.hex, "hex", false, "show every byte, with the name of its field")
	flags.BoolVar(&d.verify, "verify", false, "check the whole data directory")
	flags.BoolVar(&d.live, "live", false, "read although a broker uses the directory")
	command.RunE = app.runs(func(ctx context.Context, what []string) error {
		if d.to < 0 {
			d.to = math.MaxInt64
		}
		switch {
		case d.verify && len(what) > 0:
			return usageErrorf("--verify checks the whole of --data-dir and takes no other argument")
		case d.verify && d.hex, d.records && d.hex:
			return usageErrorf("--hex shows batches and files: it goes with neither --records nor --verify")
		case d.limit < 0 || d.from < 0:
			return usageErrorf("--limit and --from are not negative")
		}
		return d.run(ctx, what)
	})
	return command
}

// run takes the lock of every directory that is read, and reads.
func (d *dumper) run(ctx context.Context, what []string) error {
	var files, names []string
	for _, argument := range what {
		if info, err := os.Stat(argument); err == nil && !info.IsDir() {
			files = append(files, argument)
		} else {
			names = append(names, argument)
		}
	}
	if len(files) == 0 || len(names) > 0 {
		release, err := d.hold(d.dataDir)
		if err != nil {
			return err
		}
		defer release()
	}
	switch {
	case d.verify:
		return d.verifyStore(ctx)
	case len(what) == 0:
		return d.showStore()
	}
	for _, file := range files {
		if err := d.showFile(ctx, file); err != nil {
			return err
		}
	}
	if len(names) > 0 {
		return d.showLogs(ctx, names)
	}
	return nil
}

// hold keeps brokers away from a data directory while it is read.
func (d *dumper) hold(dataDir string) (release func(), err error) {
	give, err := server.HoldDirectory(dataDir)
	var locked *server.LockedError
	switch {
	case err == nil:
		return func() { _ = give() }, nil // the end of the process would do it too
	case errors.As(err, &locked) && d.live:
		fmt.Fprintf(d.errorOutput, "process %s writes to %s: what is read is of several moments, and ends may look torn\n", locked.Holder, dataDir)
		return func() {}, nil
	case errors.As(err, &locked):
		return nil, &failure{exitFailed, fmt.Errorf("a broker (process %s) uses %s", locked.Holder, dataDir),
			"stop it, so that what is read is of one moment; or read it all the same, with --live"}
	}
	return nil, err
}

// store opens the engine's part of the data directory.
func (d *dumper) store() (*dump.Store, error) {
	logs := server.LogsDirectory(d.dataDir)
	s, err := dump.Open(os.DirFS(logs))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &failure{exitNotFound, fmt.Errorf("there is no data directory at %s: it has no %s", d.dataDir, filepath.Base(logs)), "name it: --data-dir DIRECTORY"}
	}
	return s, err
}

// metadata reads the metadata store of the data directory. While a broker has it open, a copy is read.
func (d *dumper) metadata(ctx context.Context, path string) (*raftctl.Inspection, error) {
	found, err := raftctl.Inspect(path)
	if !errors.Is(err, raftctl.ErrLocked) || !d.live {
		return found, err
	}
	copied, err := os.MkdirTemp("", "ringlog-dump-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(copied)
	// A copy may be torn by the write of one transaction; they are rare.
	for range 5 {
		if err = ctx.Err(); err != nil {
			return nil, err
		}
		data, readErr := os.ReadFile(path)
		if readErr != nil {
			return nil, readErr
		}
		at := filepath.Join(copied, filepath.Base(path))
		if err = os.WriteFile(at, data, 0o600); err != nil {
			return nil, err
		}
		if found, err = raftctl.Inspect(at); err == nil {
			return found, nil
		}
	}
	return nil, err
}

// enough says whether the limit is reached.
func (d *dumper) enough() bool { return d.limit > 0 && d.shown >= d.limit }

// holdFile keeps brokers away from the data directory that a file lies in, if it lies in one.
func (d *dumper) holdFile(path string) (release func(), err error) {
	dataDir, ok := dataDirectoryOf(path)
	if !ok {
		return func() {}, nil
	}
	return d.hold(dataDir)
}

// dataDirectoryOf finds the data directory that a file lies in; ok is false when it lies in none.
func dataDirectoryOf(path string) (dataDir string, ok bool) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", false
	}
	for range 3 { // DATA-DIR/logs/LOG-ID/file
		path = filepath.Dir(path)
		if _, err := server.ReadOwner(path); err == nil {
			return path, true
		}
	}
	return "", false
}

// compareLabels orders partitions by topic and number.
func compareLabels(a, b string) int {
	topicA, partitionA := splitLabel(a)
	topicB, partitionB := splitLabel(b)
	return cmp.Or(cmp.Compare(topicA, topicB), cmp.Compare(partitionA, partitionB))
}

// splitLabel cuts a log's label, such as orders-3, into topic and partition; -1 when it is no partition's.
func splitLabel(label string) (topic string, partition int32) {
	at := strings.LastIndexByte(label, '-')
	if at < 0 {
		return label, -1
	}
	number, err := strconv.ParseInt(label[at+1:], 10, 32)
	if err != nil {
		return label, -1
	}
	return label[:at], int32(number)
}

// matchesLog says whether a name is of the log: its topic, its partition, its id, or the path of its
// directory.
func matchesLog(name, id, label string) bool {
	if name == id || name == label || strings.TrimSuffix(filepath.Base(name), "/") == id {
		return true
	}
	topic, _ := splitLabel(label)
	return name == topic
}
