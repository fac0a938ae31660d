// Command ringlog is the whole of Ringlog in one binary: the broker, and what
// people and scripts do with one. Every subcommand but serve is a client of
// any Kafka-compatible broker and goes through the public protocol only.
//
// Output for people goes to standard output, as one JSON value or JSON lines
// with --json; errors, with what to do next, go to standard error. The exit
// codes are those of exitCode and part of the interface.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// environment is what a command sees of its process; tests bring their own.
type environment struct {
	input       io.Reader
	output      io.Writer
	errorOutput io.Writer
	variable    func(name string) string
	terminal    bool // errorOutput is a person's screen
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, environment{
		input:       os.Stdin,
		output:      os.Stdout,
		errorOutput: os.Stderr,
		variable:    os.Getenv,
		terminal:    isTerminal(os.Stderr),
	}, os.Args[1:])
	stop()
	os.Exit(int(code))
}

// isTerminal says whether a file is a character device, as every terminal is
// on every system.
func isTerminal(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
