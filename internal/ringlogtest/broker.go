package ringlogtest

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startTimeout and stopTimeout bound what a broker may take on a busy machine.
const (
	startTimeout = 60 * time.Second
	stopTimeout  = 60 * time.Second
)

// Options say how a broker is started.
type Options struct {
	DataDirectory string   // empty: a temporary one of the test
	IO            string   // auto, uring or portable; empty is auto
	Flags         []string // more of `ringlog serve`
}

// Broker is a `ringlog serve` process on a loopback port of its own, which it
// keeps over restarts.
type Broker struct {
	Address       string // host:port for Kafka clients
	AdminAddress  string // host:port of the admin HTTP
	DataDirectory string

	t       testing.TB
	options Options
	log     *os.File // standard error of all its lives
	command *exec.Cmd
	ended   chan error // closed after the process' end was sent
}

// Start starts a broker and waits until it is ready. It is killed at
// the end of the test if it still runs, and its log is shown if the test failed.
func Start(t testing.TB, options Options) *Broker {
	t.Helper()
	b := New(t, options)
	b.Launch()
	b.WaitReady()
	return b
}

// New prepares a broker without starting it.
func New(t testing.TB, options Options) *Broker {
	t.Helper()
	if options.DataDirectory == "" {
		options.DataDirectory = filepath.Join(t.TempDir(), "data")
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "ringlog.log"))
	if err != nil {
		t.Fatal(err)
	}
	ports := TakePorts(t, 2)
	b := &Broker{
		Address:       fmt.Sprintf("127.0.0.1:%d", ports[0]),
		AdminAddress:  fmt.Sprintf("127.0.0.1:%d", ports[1]),
		DataDirectory: options.DataDirectory,
		t:             t, options: options, log: log,
	}
	t.Cleanup(b.cleanup)
	return b
}

// Launch starts the process and returns at once.
func (b *Broker) Launch() {
	b.t.Helper()
	if b.Running() {
		b.t.Fatal("ringlogtest: the broker runs already")
	}
	arguments := []string{"serve",
		"--data-dir", b.DataDirectory,
		"--kafka-addr", b.Address,
		"--admin-addr", b.AdminAddress,
		"--memory", "256MiB", // several brokers at once, and race builds keep it on the Go heap
		"--journal-bytes", "4MiB", // is written when it is made, and soon is used round and round
	}
	if b.options.IO != "" {
		arguments = append(arguments, "--io", b.options.IO)
	}
	b.command = exec.Command(Binary(b.t), append(arguments, b.options.Flags...)...)
	b.command.Stdout, b.command.Stderr = b.log, b.log
	if err := b.command.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.ended = make(chan error, 1)
	go func(command *exec.Cmd, ended chan<- error) {
		ended <- command.Wait()
		close(ended)
	}(b.command, b.ended)
}

// WaitReady waits until the broker says that it serves. It asks the admin
// server, which is there before recovery: that somebody takes connections at
// Address proves too little.
func (b *Broker) WaitReady() {
	b.t.Helper()
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	deadline := time.NewTimer(startTimeout)
	defer deadline.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		response, err := client.Get("http://" + b.AdminAddress + "/healthz")
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return
			}
			err = errors.New(response.Status)
		}
		select {
		case ended := <-b.ended:
			b.t.Fatalf("the broker ended before it was ready: %v\n%s", ended, b.Log())
		case <-deadline.C:
			b.t.Fatalf("the broker is not ready after %s: %v\n%s", startTimeout, err, b.Log())
		case <-again.C:
		}
	}
}

// Running says whether the process was started and has not been waited for.
func (b *Broker) Running() bool { return b.command != nil }

// Kill ends the process with SIGKILL and waits until it is gone. It is a failure
// if it was gone before.
func (b *Broker) Kill() {
	b.t.Helper()
	if err := b.kill(); b.Running() && !killed(err) {
		b.t.Errorf("the broker ended by itself before it was killed: %v\n%s", err, b.Log())
	}
	b.command = nil
	b.failOnRace()
}

// Bury is Kill for a broker that has reason to have ended by itself.
func (b *Broker) Bury() {
	b.t.Helper()
	b.kill()
	b.command = nil
	b.failOnRace()
}

// PID is the running broker's process id.
func (b *Broker) PID() int { return b.command.Process.Pid }

// kill returns how the process ended.
func (b *Broker) kill() error {
	if !b.Running() {
		return nil
	}
	if err := b.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		b.t.Fatal(err)
	}
	return <-b.ended
}

// Stop ends the process with SIGTERM, as an operator does, and waits; it must
// exit with 0.
func (b *Broker) Stop() {
	b.t.Helper()
	if !b.Running() {
		return
	}
	if err := b.command.Process.Signal(syscall.SIGTERM); err != nil {
		b.t.Fatal(err)
	}
	select {
	case err := <-b.ended:
		if err != nil {
			b.t.Errorf("the broker did not stop cleanly: %v\n%s", err, b.Log())
		}
	case <-time.After(stopTimeout):
		b.command.Process.Signal(syscall.SIGQUIT) // makes it print what it waits for
		<-b.ended
		b.t.Fatalf("the broker did not stop within %s\n%s", stopTimeout, b.Log())
	}
	b.command = nil
	b.failOnRace()
}

// Restart starts the broker again on the same data and address.
func (b *Broker) Restart() {
	b.t.Helper()
	b.Launch()
	b.WaitReady()
}

// Metric returns the value of a metric without labels.
func (b *Broker) Metric(name string) float64 {
	b.t.Helper()
	client := http.Client{Timeout: stopTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + b.AdminAddress + "/metrics")
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if value, is := strings.CutPrefix(lines.Text(), name+" "); is {
			number, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.t.Fatal(err)
			}
			return number
		}
	}
	b.t.Fatalf("there is no metric %s: %v", name, lines.Err())
	return 0
}

// Log returns what the broker printed in all its lives.
func (b *Broker) Log() string {
	text, err := os.ReadFile(b.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (b *Broker) failOnRace() {
	if text := b.Log(); strings.Contains(text, "WARNING: DATA RACE") {
		b.t.Errorf("the race detector found a race in the broker\n%s", text)
	}
}

func (b *Broker) cleanup() {
	if b.Running() {
		b.command.Process.Kill()
		<-b.ended
		b.failOnRace()
	}
	if b.t.Failed() {
		b.t.Logf("log of the broker at %s:\n%s", b.Address, tail(b.Log(), 200))
	}
	b.log.Close()
}

// tail returns the last lines of a text.
func tail(text string, lines int) string {
	all := strings.Split(text, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// killed says whether a process ended because of SIGKILL.
func killed(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}
