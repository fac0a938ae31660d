package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// script runs command lines of a testdata file and returns what a person at a
// terminal would see:
//
//	run      the input is command lines, run one after the other; what follows a
//	         line "<<<" is their standard input
//
// Of each it prints standard output, then standard error with "! " before each
// line, then the exit code when it is not 0. Arguments are separated by
// spaces; single quotes keep them together.
type script struct {
	variables map[string]string          // environment
	normalize func(output string) string // takes out what differs from run to run
}

func (s script) run(t *testing.T, d *datadriven.TestData) string {
	if d.Cmd != "run" {
		t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
	}
	var stdin string
	commands := d.Input
	if before, after, found := strings.Cut(d.Input, "\n<<<\n"); found {
		commands, stdin = before, after+"\n"
	}
	var screen strings.Builder
	for line := range strings.Lines(commands) {
		line = strings.TrimSpace(line)
		program, rest, _ := strings.Cut(line, " ")
		if program != "ringlog" {
			t.Fatalf("%s: %q does not start with ringlog", d.Pos, line)
		}
		output, errorOutput, code := s.execute(t, strings.NewReader(stdin), splitArguments(rest)...)
		screen.WriteString(output)
		for complaint := range strings.Lines(errorOutput) {
			screen.WriteString("! " + complaint)
		}
		if code != exitOK {
			fmt.Fprintf(&screen, "exit code %d\n", code)
		}
	}
	if s.normalize != nil {
		return s.normalize(screen.String())
	}
	return screen.String()
}

// execute runs one command line in this process.
func (s script) execute(t *testing.T, stdin io.Reader, arguments ...string) (output, errorOutput string, code exitCode) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a command that waits for ever is a fault, not a hang
	defer cancel()
	var out, errOut bytes.Buffer
	code = run(ctx, environment{
		input:       stdin,
		output:      &out,
		errorOutput: &errOut,
		variable:    func(name string) string { return s.variables[name] },
	}, arguments)
	return out.String(), errOut.String(), code
}

// splitArguments splits a command line as a shell would, knowing single quotes
// only.
func splitArguments(line string) (arguments []string) {
	for i, piece := range strings.Split(line, "'") {
		if i%2 == 1 {
			arguments = append(arguments, piece)
			continue
		}
		arguments = append(arguments, strings.Fields(piece)...)
	}
	return arguments
}

// TestOffline shows help and every complaint that needs no broker.
func TestOffline(t *testing.T) {
	datadriven.Walk(t, "testdata/offline", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, script{}.run)
	})
}
