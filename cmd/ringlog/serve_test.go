package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ringlog/internal/ringlogtest"
)

// serveOnce runs the binary with arguments that must make it give up, and
// returns its exit code and what it said.
func serveOnce(t *testing.T, arguments ...string) (code int, complaint string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), ringlogtest.Binary(t), append([]string{"serve", "--memory", "256MiB"}, arguments...)...)
	output, err := command.CombinedOutput()
	if err == nil {
		t.Fatalf("it ended well:\n%s", output)
	}
	return command.ProcessState.ExitCode(), string(output)
}

func TestASecondBrokerIsToldWhatToDo(t *testing.T) {
	broker := ringlogtest.Start(t, ringlogtest.Options{})

	code, complaint := serveOnce(t, "--data-dir", broker.DataDirectory, "--kafka-addr", "127.0.0.1:0", "--admin-addr", "off")
	if code != int(exitFailed) || !strings.Contains(complaint, "choose another directory with --data-dir") {
		t.Errorf("on the same directory: exit code %d, %s", code, complaint)
	}
	code, complaint = serveOnce(t, "--data-dir", t.TempDir(), "--kafka-addr", broker.Address, "--admin-addr", "off")
	if code != int(exitFailed) || !strings.Contains(complaint, "choose another address with --kafka-addr") {
		t.Errorf("on the same address: exit code %d, %s", code, complaint)
	}
}

// TestAWrongAdvertisedAddressIsNamed: a broker that can be reached and sends its
// clients elsewhere is the first wall that Kafka's users hit; clients only
// ever show a time-out.
func TestAWrongAdvertisedAddressIsNamed(t *testing.T) {
	broker := ringlogtest.Start(t, ringlogtest.Options{Flags: []string{"--advertised-addr", "127.0.0.1:1"}})
	_, complaint, code := script{}.execute(t, strings.NewReader(""), "topic", "list", "--brokers", broker.Address)
	if code != exitUnreachable || !strings.Contains(complaint, broker.Address+" answers, and tells clients to use 127.0.0.1:1") ||
		!strings.Contains(complaint, "--advertised-addr") {
		t.Errorf("exit code %d, %s", code, complaint)
	}
}

func TestTheFileIsReadAndFlagsWin(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ringlog.toml")
	if err := os.WriteFile(file, []byte("num.partitions = 5\nio = \"uring\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	broker := ringlogtest.Start(t, ringlogtest.Options{IO: "portable", Flags: []string{"--config", file, "--json"}})
	if log := broker.Log(); !strings.Contains(log, `"io":"portable"`) {
		t.Errorf("the flag --io did not win over the file, or the log is not JSON:\n%s", log)
	}
	output, complaint, code := script{}.execute(t, strings.NewReader(""), "topic", "create", "five", "--brokers", broker.Address)
	if code != exitOK {
		t.Fatal(output, complaint)
	}
	output, complaint, _ = script{}.execute(t, strings.NewReader(""), "topic", "list", "--json", "--brokers", broker.Address)
	var topics []topicSummary
	if err := json.Unmarshal([]byte(output), &topics); err != nil || len(topics) != 1 || topics[0].Partitions != 5 {
		t.Errorf("num.partitions of the file did not hold: %s%s", output, complaint)
	}
}

func TestOperatorsSeeHealthAndMetrics(t *testing.T) {
	broker := ringlogtest.Start(t, ringlogtest.Options{})
	get := func(path string) (int, string) {
		t.Helper()
		response, err := http.Get("http://" + broker.AdminAddress + path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
	if status, body := get("/healthz"); status != http.StatusOK {
		t.Errorf("/healthz answers %d: %s", status, body)
	}
	if status, body := get("/metrics"); status != http.StatusOK || !strings.Contains(body, "ringlog_") {
		t.Errorf("/metrics answers %d: %.300s", status, body)
	}
	broker.Stop()
}

// TestProduceEndsWhenTheBrokerIsGone: a command that cannot go on says so within
// its time limit, with what is known of the records.
func TestProduceEndsWhenTheBrokerIsGone(t *testing.T) {
	broker := ringlogtest.Start(t, ringlogtest.Options{})
	if _, complaint, code := (script{}).execute(t, strings.NewReader(""), "topic", "create", "orders", "--brokers", broker.Address); code != exitOK {
		t.Fatal(complaint)
	}
	reader, writer := io.Pipe()
	type outcome struct {
		output, complaint string
		code              exitCode
	}
	ended := make(chan outcome, 1)
	go func() {
		output, complaint, code := script{}.execute(t, reader, "produce", "orders", "--brokers", broker.Address, "--timeout", "2s", "--linger", "0s")
		ended <- outcome{output, complaint, code}
	}()
	if _, err := io.WriteString(writer, "first\n"); err != nil {
		t.Fatal(err)
	}
	awaitRecords(t, broker, 1)
	broker.Kill()
	if _, err := io.WriteString(writer, "second\n"); err != nil {
		t.Fatal(err)
	}
	got := <-ended
	if got.code != exitUnreachable || !strings.Contains(got.output, "1 record to orders") || !strings.Contains(got.complaint, "look before sending them again") {
		t.Errorf("exit code %d\n%s%s", got.code, got.output, got.complaint)
	}
	writer.Close()
}

// TestConsumeEndsWhenTheBrokerIsGone: one that has an end to reach, that is; one
// that follows a topic waits for the broker to come back.
func TestConsumeEndsWhenTheBrokerIsGone(t *testing.T) {
	broker := ringlogtest.Start(t, ringlogtest.Options{})
	s := script{variables: map[string]string{"RINGLOG_BROKERS": broker.Address}}
	produce := func(lines string) {
		t.Helper()
		if _, complaint, code := s.execute(t, strings.NewReader(lines), "produce", "orders"); code != exitOK {
			t.Fatal(complaint)
		}
	}
	if _, complaint, code := s.execute(t, strings.NewReader(""), "topic", "create", "orders"); code != exitOK {
		t.Fatal(complaint)
	}
	produce("first\n")
	ctx, stopFollowing := context.WithCancel(t.Context())
	bounded := startConsumer(t.Context(), s, "--until", "5", "--timeout", "1s")
	following := startConsumer(ctx, s, "--timeout", "1s")
	bounded.await(t, "first\n")
	following.await(t, "first\n")

	broker.Kill()
	if code := <-bounded.ended; code != exitUnreachable || !strings.Contains(bounded.complaint.String(), "ringlog serve") {
		t.Errorf("with an end to reach: exit code %d\n%s", code, bounded.complaint.String())
	}
	broker.Restart()
	produce("second\n")
	following.await(t, "first\nsecond\n")
	stopFollowing()
	if code := <-following.ended; code != exitOK {
		t.Errorf("following: exit code %d\n%s", code, following.complaint.String())
	}
}

// consumer is a consume command under way.
type consumer struct {
	printed   chan string // what it printed, piece by piece
	text      string      // of that, what the test has taken
	complaint strings.Builder
	ended     chan exitCode
}

// Write takes what the command prints.
func (c *consumer) Write(piece []byte) (int, error) {
	c.printed <- string(piece)
	return len(piece), nil
}

// startConsumer consumes topic orders until ctx ends.
func startConsumer(ctx context.Context, s script, flags ...string) *consumer {
	c := &consumer{printed: make(chan string, 100), ended: make(chan exitCode, 1)}
	env := environment{input: strings.NewReader(""), output: c, errorOutput: &c.complaint,
		variable: func(name string) string { return s.variables[name] }}
	go func() { c.ended <- run(ctx, env, append([]string{"consume", "orders"}, flags...)) }()
	return c
}

// await waits until the command has printed a text.
func (c *consumer) await(t *testing.T, text string) {
	t.Helper()
	deadline := time.After(time.Minute)
	for c.text != text {
		select {
		case piece := <-c.printed:
			c.text += piece
		case <-deadline:
			t.Fatalf("it printed %q, and not yet %q", c.text, text)
		}
	}
}

// awaitRecords waits until topic orders holds so many records.
func awaitRecords(t *testing.T, broker *ringlogtest.Broker, count int) {
	t.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for range 3000 {
		output, _, _ := script{}.execute(t, strings.NewReader(""), "consume", "orders", "--until", "end", "--brokers", broker.Address)
		if strings.Count(output, "\n") >= count {
			return
		}
		<-again.C
	}
	t.Fatalf("orders never held %d records", count)
}

func TestVersionIsWhatWasBuilt(t *testing.T) {
	output, err := exec.Command(ringlogtest.Binary(t), "version", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var report versionReport
	if err := json.Unmarshal(output, &report); err != nil || report.Go == "" || report.Platform == "" || report.Version == "" {
		t.Errorf("%+v, %v", report, err)
	}
}
