package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ringlog/internal/ringlogtest"
)

// noTableTools is why the tests of the scripts that make tables are skipped.
const noTableTools = "the scripts that make tables need bash and jq: run `make tools` once, which installs them"

func requireTableTools(t *testing.T) {
	t.Helper()
	for _, tool := range []string{"bash", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(noTableTools)
		}
	}
}

// requireAll notes what is not in a script's output.
func requireAll(t *testing.T, output string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(output, want) {
			t.Errorf("no %q in\n%s", want, output)
		}
	}
}

// makeTable runs a script that makes a table, and returns the table and the reports that
// it kept. It has to leave nothing else on the disk.
func makeTable(t *testing.T, name string, environment []string, arguments ...string) (table, reports string) {
	t.Helper()
	requireTableTools(t)
	directory := t.TempDir()
	out := filepath.Join(directory, "table")
	command := exec.CommandContext(t.Context(), "../../scripts/"+name, arguments...)
	command.Env = append(os.Environ(), "RINGLOG="+ringlogtest.Binary(t), "DATA="+directory, "OUT="+out)
	command.Env = append(command.Env, environment...)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	kept, err := os.ReadFile(out + ".jsonl")
	if err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(directory); err != nil || len(left) != 2 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	return string(output), string(kept)
}

// TestTheCommitTableIsMade: the script runs each system once for each row, keeps
// every report, and makes a line for each row.
func TestTheCommitTableIsMade(t *testing.T) {
	table, reports := makeTable(t, "commit-table.sh", []string{"ROWS=3x200 2x262144", "DURABILITIES=durable", "ROUNDS=1",
		"SECONDS_EACH=0.05", "WARM_UP=10ms", "PAUSE=0", "SPACE_BYTES=67108864"}, "--tail-bytes", "16777216", "--journal-bytes", "4194304")
	requireAll(t, table, "| 3 × 200 | durable | ", "| 2 × 262144 | durable | ", "| journal", "| direct: ")
	if strings.Contains(table, "failed") {
		t.Errorf("a run failed:\n%s", table)
	}
	if strings.Count(reports, "\n") != 7 {
		t.Errorf("these are not 7 reports:\n%s", reports)
	}
}

// TestReadersAreCompared: the script starts a broker, measures each row, keeps every report, and
// makes a line for each row.
func TestReadersAreCompared(t *testing.T) {
	table, reports := makeTable(t, "readers.sh", []string{"ROWS=tails=2 scans=1,tails=1 idle=10", "ROUNDS=1", "SECONDS_EACH=0.2", "RATE=1",
		"HISTORY_BYTES=500000", "SERVE_FLAGS=--memory 256MiB --journal-bytes 4MiB", fmt.Sprint("KAFKA_PORT=", ringlogtest.TakePorts(t, 1)[0])},
		"--batch-bytes", "1000", "--settle", "50ms")
	requireAll(t, table, "| tails=2 | 1 | ", "| scans=1,tails=1 | 1 | ", "| idle=10 | 1 | ")
	if strings.Count(reports, `"kind":"beside"`) != 3 {
		t.Errorf("these are not 3 reports:\n%s", reports)
	}
}

// TestASoakComparesItsEnds: the script looks at the broker as often as it was told, keeps every
// look, compares the first with the last, leaves nothing running or on the disk, and says so when
// something went wrong.
func TestASoakComparesItsEnds(t *testing.T) {
	requireTableTools(t)
	binary := ringlogtest.Binary(t)
	soak := func(arguments ...string) (screen, looks string, err error) {
		t.Helper()
		directory, ports := t.TempDir(), ringlogtest.TakePorts(t, 2)
		out := filepath.Join(directory, "soak")
		command := exec.CommandContext(t.Context(), "../../scripts/soak.sh", arguments...)
		command.Env = append(os.Environ(), "RINGLOG="+binary, "DATA="+directory, "OUT="+out, "MINUTES=0.02", "INTERVAL=0.4", "COMPARE=0.01",
			"RATE=2", "RETAIN_BYTES=2097152", "SEGMENT_BYTES=1048576", "PARTITIONS=2", "SERVE_FLAGS=--memory 256MiB --journal-bytes 4MiB",
			fmt.Sprint("KAFKA_PORT=", ports[0]), fmt.Sprint("ADMIN_PORT=", ports[1]))
		output, err := command.CombinedOutput()
		kept, readErr := os.ReadFile(out + ".jsonl")
		if left, listErr := os.ReadDir(directory); readErr != nil || listErr != nil || len(left) != 3 {
			t.Errorf("left behind: %v, %v, %v\n%s", left, listErr, readErr, output)
		}
		return string(output), string(kept), err
	}
	screen, looks, err := soak()
	if err != nil {
		t.Fatalf("%v\n%s", err, screen)
	}
	requireAll(t, screen, "| MB/s, median [least] | ", "| p99 ms, median [most] | ", "| server RSS MB, most | ", "| free disk MB, least | ")
	if strings.Count(looks, `"go_heap_bytes":`) < 2 || strings.Count(looks, `"kind":"produce"`) != 1 {
		t.Errorf("these are not the looks and the report of a run of three intervals:\n%s", looks)
	}

	screen, _, err = soak("--durability", "written") // which the topic has not
	if err == nil || !strings.Contains(screen, "soak: the load generator failed") {
		t.Errorf("a load that was refused ended with %v\n%s", err, screen)
	}
}

// TestTheShareOfBareIsTold: the script runs broker and ceiling by the same clock, prints the tails of both
// and the share of each, and leaves nothing running or on the disk.
func TestTheShareOfBareIsTold(t *testing.T) {
	requireTableTools(t)
	directory := t.TempDir()
	command := exec.CommandContext(t.Context(), "../../scripts/share-of-bare.sh", "durable", "recycled", "--rate", "2000", "--batch-bytes", "2000", "--partitions", "2")
	command.Env = append(os.Environ(), "RINGLOG="+ringlogtest.Binary(t), "DATA="+directory, "ROUNDS=1", "SECONDS_EACH=0.2", "PAUSE=0",
		"FILE_BYTES=4194304", "SEGMENT_BYTES=1048576", "SERVE_FLAGS=--memory 256MiB --journal-bytes 4MiB", fmt.Sprint("KAFKA_PORT=", ringlogtest.TakePorts(t, 1)[0]))
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	requireAll(t, string(output), "durable, recycled files", "bare\t", "broker\t", "share\tthroughput ", "\tp50 ", "\tp99 ", "\tp99.9 ")
	if left, err := os.ReadDir(directory); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
