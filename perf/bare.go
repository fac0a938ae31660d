package perf

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// bareProcs is the least GOMAXPROCS of a bare server: its loops, its shard and two
// more (a thread back from a system call otherwise waits for a slice of 10 ms).
const bareProcs = 4

// bareReady is what a bare server process says when it is ready.
type bareReady struct {
	Address string `json:"address"`
	PID     int    `json:"pid"`
	Error   string `json:"error,omitempty"`
}

// ServeBare is the life of a bare server process: it reads BareServerOptions as
// one line of JSON from in, answers on out with one line when it is ready, and
// serves until in ends.
func ServeBare(ctx context.Context, in io.Reader, out io.Writer) error {
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), bareProcs))
	lines := bufio.NewReader(in)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("perf: bare server: options: %w", err)
	}
	var options BareServerOptions
	if err := json.Unmarshal(line, &options); err != nil {
		return fmt.Errorf("perf: bare server: options: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, lines) // it ends when the parent closes it, or dies
		cancel()
	}()
	encoder := json.NewEncoder(out)
	var readyErr error
	err = BareServer(ctx, options, func(address net.Addr) {
		readyErr = encoder.Encode(bareReady{Address: address.String(), PID: os.Getpid()})
	})
	if err = errors.Join(err, readyErr); err != nil {
		return errors.Join(err, encoder.Encode(bareReady{Error: err.Error()}))
	}
	return nil
}

// Bare measures the ceiling: the load of Produce against a BareServer in a process of
// its own, so that the CPU of each is known.
func Bare(ctx context.Context, options BareOptions) (report Report, err error) {
	options.EnsureDefaults()
	report = Report{Kind: "bare", Parameters: options, Environment: CurrentEnvironment()}
	if err := errors.Join(options.Validate(), options.Server.Validate()); err != nil {
		return report, err
	}
	server, err := startBareServer(ctx, &options)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	partitions := make([]int32, options.Partitions)
	for i := range partitions {
		partitions[i] = int32(i)
	}
	targets := []target{{server.ready.Address, partitions}}
	err = generate(ctx, &report, &options.Load, targets, bareVersion, bareTopic, server.ready.PID)
	return report, err
}

// bareProcess is a running bare server.
type bareProcess struct {
	command *exec.Cmd
	in      io.WriteCloser
	ready   bareReady
}

func startBareServer(ctx context.Context, options *BareOptions) (*bareProcess, error) {
	arguments := options.Command
	if len(arguments) == 0 {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("perf: bare server: %w", err)
		}
		arguments = []string{self, "perf", "bare", "--serve"}
	}
	p := &bareProcess{command: exec.Command(arguments[0], arguments[1:]...)}
	p.command.Stderr = os.Stderr
	in, err := p.command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("perf: bare server: %w", err)
	}
	p.in = in
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("perf: bare server: %w", err)
	}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("perf: bare server: %w", err)
	}
	answer := make(chan error, 1)
	go func() {
		if err := json.NewEncoder(in).Encode(options.Server); err != nil {
			answer <- err
			return
		}
		answer <- json.NewDecoder(out).Decode(&p.ready)
	}()
	timer := time.NewTimer(options.StartTimeout)
	defer timer.Stop()
	select {
	case err = <-answer:
		if err == nil && p.ready.Error != "" {
			err = errors.New(p.ready.Error)
		}
	case <-timer.C:
		err = fmt.Errorf("not ready after %v", options.StartTimeout)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("perf: bare server: %w", err), p.stop())
	}
	return p, nil
}

// stopTimeout is how long a bare server may take to remove its files.
const stopTimeout = time.Minute

// stop ends the process: politely by the end of its input, then by force.
func (p *bareProcess) stop() error {
	_ = p.in.Close() // fails only when the process is gone
	force := time.AfterFunc(stopTimeout, func() { _ = p.command.Process.Kill() })
	defer force.Stop()
	if err := p.command.Wait(); err != nil {
		return fmt.Errorf("perf: bare server: %w", err)
	}
	return nil
}
