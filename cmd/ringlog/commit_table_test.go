package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ringlog/internal/ringlogtest"
)

// noTableTools is why the script's test is skipped.
const noTableTools = "scripts/commit-table.sh needs bash and jq: run `make tools` once, which installs them"

// TestTheCommitTableIsMade: the script runs each system once for each row, keeps
// every report, makes a line for each row, and leaves nothing on the disk.
func TestTheCommitTableIsMade(t *testing.T) {
	for _, tool := range []string{"bash", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(noTableTools)
		}
	}
	directory := t.TempDir()
	out := filepath.Join(directory, "table")
	command := exec.CommandContext(t.Context(), "../../scripts/commit-table.sh", "--tail-bytes", "16777216", "--journal-bytes", "4194304")
	command.Env = append(os.Environ(), "RINGLOG="+ringlogtest.Binary(t), "DATA="+directory, "OUT="+out, "ROWS=3x200 2x262144",
		"DURABILITIES=durable", "ROUNDS=1", "SECONDS_EACH=0.05", "WARM_UP=10ms", "PAUSE=0", "SPACE_BYTES=67108864")
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	table := string(output)
	for _, want := range []string{"| 3 × 200 | durable | ", "| 2 × 262144 | durable | ", "| journal", "| direct: "} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	if strings.Contains(table, "failed") {
		t.Errorf("a run failed:\n%s", table)
	}
	reports, err := os.ReadFile(out + ".jsonl")
	if err != nil || strings.Count(string(reports), "\n") != 7 {
		t.Errorf("%v, and these are not 7 reports:\n%s", err, reports)
	}
	if left, err := os.ReadDir(directory); err != nil || len(left) != 2 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
