package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const manualPath = "../../docs/cli.md"

// documented visits every command that people see.
func documented(visit func(*cobra.Command)) {
	app := &application{environment: environment{variable: func(string) string { return "" }}}
	everyCommand(newRoot(app), func(command *cobra.Command) {
		if !command.Hidden && command.Name() != "help" && command.Name() != "completion" {
			visit(command)
		}
	})
}

// TestEveryCommandShowsHow: each command has an example that begins with its own name, each of
// its flags says what it does, and what it takes is named.
func TestEveryCommandShowsHow(t *testing.T) {
	commands := 0
	documented(func(command *cobra.Command) {
		commands++
		path := command.CommandPath()
		if command.Short == "" || !strings.Contains(command.Example, path) {
			t.Errorf("%s: no short sentence, or no example that shows it:\n%s", path, command.Example)
		}
		for line := range strings.Lines(command.Example) {
			if !strings.HasPrefix(line, "  ") {
				t.Errorf("%s: the example %q is not indented by two", path, line)
			}
		}
		command.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if len(f.Usage) < 10 {
				t.Errorf("%s: flag --%s says no more than %q", path, f.Name, f.Usage)
			}
			name, _ := pflag.UnquoteUsage(f)
			if f.Value.Type() != "bool" && name == "" {
				t.Errorf("%s: flag --%s does not name what it takes", path, f.Name)
			}
		})
	})
	if commands < 20 {
		t.Errorf("found %d commands: this test has lost sight of them", commands)
	}
}

// substitution is what a shell would replace by the output of a command.
var substitution = regexp.MustCompile(`\$\([^)]*\)`)

// TestExamplesAreUnderstood parses the command line of every example: a flag that was renamed
// must not live on there.
func TestExamplesAreUnderstood(t *testing.T) {
	documented(func(command *cobra.Command) {
		for line := range strings.Lines(command.Example) {
			_, line, found := strings.Cut(line, "ringlog ")
			if !found {
				continue
			}
			line, _, _ = strings.Cut(line, " | ")
			line, _, _ = strings.Cut(line, " > ")
			line, _, _ = strings.Cut(line, " < ")
			line = substitution.ReplaceAllString(line, "1")
			app := &application{environment: environment{variable: func(string) string { return "" }}}
			root := newRoot(app)
			arguments := splitArguments(strings.TrimSpace(line))
			named, rest, err := root.Find(arguments)
			if err == nil {
				err = named.ParseFlags(rest)
			}
			if err == nil {
				err = named.ValidateArgs(named.Flags().Args())
			}
			if err != nil {
				t.Errorf("%s: the example ringlog %s: %v", command.CommandPath(), line, err)
			}
		}
	})
}

// TestTheManualIsMadeOfflineFromTheCommands compares docs/cli.md with what the commands say, and makes
// it anew with -rewrite.
func TestTheManualIsMadeOfflineFromTheCommands(t *testing.T) {
	made := manual()
	kept, err := os.ReadFile(manualPath)
	if err == nil && string(kept) == made {
		return
	}
	if flag.Lookup("rewrite").Value.String() != "true" {
		t.Fatalf("docs/cli.md is not what the commands say: go test ./cmd/ringlog -run Offline -rewrite")
	}
	if err := os.WriteFile(manualPath, []byte(made), 0o644); err != nil {
		t.Fatal(err)
	}
}

func manual() string {
	var page strings.Builder
	page.WriteString(`# The command line

Made from the commands' own help: ` + "`go test ./cmd/ringlog -run Offline -rewrite`" + `.

Every command takes ` + "`--json`" + ` and then prints JSON in place of text: one value, or a line for each
record, batch or frame where there may be many. Errors go to standard error, with what to do next. Every
command but serve, doctor, dump, settings and version is a client of any Kafka-compatible broker.

| Exit code | Meaning |
|---|---|
`)
	for _, row := range []struct {
		code    exitCode
		meaning string
	}{
		{exitOK, "done; of doctor: all is well; of dump --verify: whole"},
		{exitFailed, "failed"},
		{exitUsage, "wrong usage"},
		{exitUnreachable, "no broker was reached"},
		{exitNotFound, "no such topic, partition, configuration or data directory"},
		{exitRefused, "the broker refused"},
		{exitDamaged, "dump: something is damaged"},
		{exitWarnings, "doctor: there are warnings and no errors"},
		{exitErrors, "doctor: there are errors"},
		{exitInterrupted, "interrupted"},
	} {
		fmt.Fprintf(&page, "| %d | %s |\n", row.code, row.meaning)
	}
	page.WriteString(`
Shells complete commands, flags, and, when a broker answers within a second, topics and configurations:

    source <(ringlog completion bash)      # or zsh, fish, powershell; ringlog completion bash --help says how to keep it
`)
	documented(func(command *cobra.Command) {
		text := command.Long
		if text == "" {
			text = command.Short + "."
		}
		fmt.Fprintf(&page, "\n## %s\n\n%s\n\n    %s\n", command.CommandPath(), text, command.UseLine())
		if command.HasAvailableSubCommands() {
			page.WriteString("\n| Command | |\n|---|---|\n")
			for _, below := range command.Commands() {
				if below.IsAvailableCommand() && below.Name() != "completion" {
					fmt.Fprintf(&page, "| [%s](#%s) | %s |\n", below.CommandPath(), strings.ReplaceAll(below.CommandPath(), " ", "-"), below.Short)
				}
			}
		}
		if flags := command.LocalFlags().FlagUsages(); strings.TrimSpace(flags) != "" {
			fmt.Fprintf(&page, "\n```\n%s```\n", flags)
		}
		fmt.Fprintf(&page, "\nExamples:\n\n```\n%s\n```\n", strings.TrimRight(unindent(command.Example), "\n"))
	})
	return page.String()
}

// unindent takes two spaces from the front of each line.
func unindent(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(strings.TrimPrefix(line, "  "))
	}
	return out.String()
}
