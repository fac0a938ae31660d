package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ringlog/internal/ringlogtest"
	"ringlog/perf"
	"ringlog/perf/commit"
)

// TestPerfCountsWhatItSent: what perf produce reports as sent is what perf
// consume finds, and both reports say what made the figures.
func TestPerfCountsWhatItSent(t *testing.T) {
	broker := ringlogtest.Start(t, ringlogtest.Options{})
	s := script{variables: map[string]string{"RINGLOG_BROKERS": broker.Address}}
	measured := func(arguments ...string) (report perf.Report) {
		t.Helper()
		output, complaint, code := s.execute(t, strings.NewReader(""), append([]string{"perf", "--json"}, arguments...)...)
		if code != exitOK {
			t.Fatalf("%v: exit code %d, %s", arguments, code, complaint)
		}
		if err := json.Unmarshal([]byte(output), &report); err != nil {
			t.Fatalf("%v: %v\n%s", arguments, err, output)
		}
		return report
	}
	produced := measured("produce", "--count", "5000", "--partitions", "3", "--connections", "2", "--codec", "lz4", "--record-bytes", "200")
	if produced.Records < 5000 || produced.AckLatency == nil || produced.Environment.Cores == 0 || len(produced.Errors) > 0 {
		t.Errorf("%+v", produced)
	}
	if produced.Engine != nil {
		t.Errorf("nobody said where metrics are, and they were read: %+v", produced.Engine)
	}
	counted := measured("produce", "--count", "5000", "--topic", "perf-durable-3", "--record-bytes", "200", "--connections", "1", "--depth", "1", "--metrics", "http://"+broker.AdminAddress+"/metrics")
	if e := counted.Engine; e == nil || e.Appends != counted.Requests || e.AppendBytes != counted.Bytes || e.JournalShare != 1 ||
		e.Commits == 0 || e.CommitTimes == nil || e.Amplification < 1 || e.JournalBytes != 4<<20 {
		t.Errorf("%d requests with %d bytes, and the engine counted %+v", counted.Requests, counted.Bytes, e)
	}
	produced.Records, produced.Bytes = produced.Records+counted.Records, produced.Bytes+counted.Bytes
	people, complaint, code := s.execute(t, strings.NewReader(""), "perf", "produce", "--count", "100", "--metrics", "http://"+broker.AdminAddress+"/metrics")
	if code != exitOK || !strings.Contains(people, " commits/s, of ") || !strings.Contains(people, " bytes written for each byte appended: journal ") {
		t.Errorf("exit code %d\n%s%s", code, people, complaint)
	}
	if consumed := measured("consume", "--topic", "perf-durable-3"); consumed.Records != produced.Records || consumed.Bytes != produced.Bytes {
		t.Errorf("%d records of %d bytes were sent, %d of %d were read", produced.Records, produced.Bytes, consumed.Records, consumed.Bytes)
	}

	output, complaint, code := s.execute(t, strings.NewReader(""), "perf", "produce", "--durability", "written", "--topic", "perf-durable-3")
	if code != exitRefused || !strings.Contains(complaint, "choose another --topic") {
		t.Errorf("another durability than the topic's: exit code %d, %s%s", code, output, complaint)
	}
	_, complaint, code = s.execute(t, strings.NewReader(""), "perf", "consume", "--topic", "nothing")
	if code != exitNotFound || !strings.Contains(complaint, "ringlog perf produce --topic nothing") {
		t.Errorf("a topic that is not there: exit code %d, %s", code, complaint)
	}
}

// TestPerfMeasuresAProducerBesideOthers: the figures of both phases, to people and to programs, and what to
// do when nobody is beside it or the broker does not want so many.
func TestPerfMeasuresAProducerBesideOthers(t *testing.T) {
	broker := ringlogtest.Start(t, ringlogtest.Options{Flags: []string{"--set", "max.connections.per.ip=60"}})
	s := script{variables: map[string]string{"RINGLOG_BROKERS": broker.Address}}
	beside := func(arguments ...string) (output, complaint string, code exitCode) {
		t.Helper()
		return s.execute(t, strings.NewReader(""), append([]string{"perf", "beside", "--rate", "2000", "--record-bytes", "100", "--batch-bytes", "200",
			"--connections", "2", "--duration", "200ms", "--settle", "100ms", "--server-pid", fmt.Sprint(broker.PID())}, arguments...)...)
	}
	output, complaint, code := beside("--json", "--idle", "20", "--tails", "1", "--scans", "1", "--stuck", "2", "--history-bytes", "100000")
	var report perf.BesideReport
	if err := json.Unmarshal([]byte(output), &report); err != nil || code != exitOK || len(report.Rounds) != 1 {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, output, complaint)
	}
	for name, phase := range map[string]perf.BesidePhase{"alone": report.Rounds[0].Alone, "beside": report.Rounds[0].Beside} {
		if phase.AckLatency == nil || phase.EndToEnd == nil || phase.CPU.Server == nil || phase.ResidentBytesMax == 0 || len(phase.Errors) > 0 {
			t.Errorf("%s: %+v", name, phase)
		}
	}
	if idle := report.Rounds[0].Idle; idle.Closed != 0 || idle.Answered != 0 || idle.ResidentBytesAfter == 0 {
		t.Errorf("idle connections: %+v", idle)
	}
	output, complaint, code = beside("--idle", "5", "--rounds", "2")
	if code != exitOK || !strings.Contains(output, "\nalone ") || !strings.Contains(output, "\nbeside ") || !strings.Contains(output, "idle: 5 connections opened in ") {
		t.Errorf("exit code %d\n%s%s", code, output, complaint)
	}
	if _, complaint, code = beside("--idle", "200", "--settle", "500ms"); code != exitRefused || !strings.Contains(complaint, "max.connections.per.ip") {
		t.Errorf("more connections than the broker takes: exit code %d, %s", code, complaint)
	}
	if _, complaint, code = beside(); code != exitUsage || !strings.Contains(complaint, "nobody is beside") {
		t.Errorf("nobody: exit code %d, %s", code, complaint)
	}
}

// TestTheCeilingIsAProcessOfItsOwn: perf bare starts itself as the server and
// leaves nothing behind.
func TestTheCeilingIsAProcessOfItsOwn(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "bare")
	command := exec.CommandContext(t.Context(), ringlogtest.Binary(t), "perf", "bare", "--json", "--data-dir", directory,
		"--count", "2000", "--connections", "2", "--partitions", "2", "--file-bytes", "8388608")
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	var report perf.Report
	if err := json.Unmarshal(output, &report); err != nil || report.Records < 2000 || report.CPU.Server == nil {
		t.Errorf("%v\n%s", err, output)
	}
	if left, err := os.ReadDir(directory); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestTheDiskIsMeasuredAndLeftClean: perf device in its three modes of flushing.
func TestTheDiskIsMeasuredAndLeftClean(t *testing.T) {
	for _, flush := range []string{"group", "each", "none"} {
		directory := filepath.Join(t.TempDir(), "device")
		output, complaint, code := script{}.execute(t, strings.NewReader(""), "perf", "device", "--data-dir", directory,
			"--flush", flush, "--duration", "50ms", "--file-bytes", "4194304", "--files", "2")
		if code != exitOK || !strings.Contains(output, " writes/s\n") {
			t.Errorf("--flush %s: exit code %d\n%s%s", flush, code, output, complaint)
		}
		if left, err := os.ReadDir(directory); err != nil || len(left) > 0 {
			t.Errorf("--flush %s left behind: %v, %v", flush, left, err)
		}
	}
}

// TestCommitsAreMeasuredAndLeftClean: perf commit says the same to people and to
// programs, of the engine and of what stands in its place.
func TestCommitsAreMeasuredAndLeftClean(t *testing.T) {
	for _, system := range []string{"engine", "journal", "syncfs", "files", "direct"} {
		directory := filepath.Join(t.TempDir(), "commit")
		arguments := []string{"perf", "commit", "--data-dir", directory, "--system", system, "--partitions", "3", "--record-bytes", "200",
			"--warm-up", "10ms", "--duration", "50ms", "--journal-bytes", "4194304", "--space-bytes", "67108864"}
		if system == "engine" {
			arguments = append(arguments, "--tail-bytes", "16777216")
		}
		output, complaint, code := script{}.execute(t, strings.NewReader(""), arguments...)
		if code != exitOK || !strings.Contains(output, " appends/s, ") || !strings.Contains(output, "3 partitions, ") {
			t.Errorf("%s: exit code %d\n%s%s", system, code, output, complaint)
		}
		output, complaint, code = script{}.execute(t, strings.NewReader(""), append(arguments, "--json")...)
		var report struct {
			Parameters commit.Options `json:"parameters"`
			Appends    int64          `json:"appends"`
		}
		if err := json.Unmarshal([]byte(output), &report); err != nil || code != exitOK || string(report.Parameters.System) != system || report.Appends == 0 {
			t.Errorf("%s: exit code %d, %v\n%s%s", system, code, err, output, complaint)
		}
		if left, err := os.ReadDir(directory); err != nil || len(left) > 0 {
			t.Errorf("%s left behind: %v, %v", system, left, err)
		}
	}
}

// TestFiguresCanBeRead pins how numbers are printed for people.
func TestFiguresCanBeRead(t *testing.T) {
	for number, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 1234567.4: "1,234,567"} {
		if got := grouped(number); got != want {
			t.Errorf("%v is printed as %s, not %s", number, got, want)
		}
	}
	if got := micros(1500); got != "1.5ms" {
		t.Errorf("1500 µs are printed as %s", got)
	}
}
