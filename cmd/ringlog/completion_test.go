package main

import (
	"strings"
	"testing"

	"ringlog/internal/ringlogtest"
)

// completions asks as a shell does.
func completions(t *testing.T, s script, arguments ...string) []string {
	t.Helper()
	output, complaint, code := s.execute(t, strings.NewReader(""), append([]string{"__complete"}, arguments...)...)
	if code != exitOK {
		t.Fatalf("%q: exit code %d, %s", arguments, code, complaint)
	}
	lines := strings.Split(strings.TrimSpace(output), "\n")
	return lines[:len(lines)-1] // the last is for the shell's script
}

func TestShellsCompleteWhatABrokerHas(t *testing.T) {
	broker := ringlogtest.Start(t, ringlogtest.Options{})
	s := script{variables: map[string]string{"RINGLOG_BROKERS": broker.Address}}
	succeed(t, s, "", "topic", "create", "orders", "audit", "offers")
	for _, c := range []struct {
		typed  []string
		wanted string
	}{
		{[]string{"consume", "o"}, "offers orders"},
		{[]string{"consume", "orders", ""}, ""},
		{[]string{"topic", "describe", "orders", "o"}, "offers"},
		{[]string{"config", "get", "t"}, "topic"},
		{[]string{"config", "get", "topic", "a"}, "audit"},
		{[]string{"config", "list", "broker", ""}, "all 1"},
		{[]string{"config", "get", "topic", "orders", "retention."}, "retention.bytes retention.ms"},
		{[]string{"config", "set", "topic", "orders", "retention.m"}, "retention.ms="},
		{[]string{"consume", "--brokers", broker.Address, "a"}, "audit"},
	} {
		if got := strings.Join(completions(t, s, c.typed...), " "); got != c.wanted {
			t.Errorf("%q is completed by %q, want %q", c.typed, got, c.wanted)
		}
	}
}

// TestShellsCompleteWithoutABroker: nobody waits for one, and what needs none is there.
func TestShellsCompleteWithoutABroker(t *testing.T) {
	s := script{variables: map[string]string{"RINGLOG_BROKERS": "127.0.0.1:1"}}
	for _, c := range []struct {
		typed  []string
		wanted string
	}{
		{[]string{"consume", ""}, ""},
		{[]string{"topic", "create", "x", "--config", "retention.m"}, "retention.ms="},
		{[]string{"config", "get", "topic", "x", "retention.m"}, "retention.ms"},
		{[]string{"serve", "--set", "num.par"}, "num.partitions="},
		{[]string{"serve", "--io", "u"}, "uring"},
		{[]string{"produce", "x", "--codec", "zs"}, "zstd"},
	} {
		if got := strings.Join(completions(t, s, c.typed...), " "); got != c.wanted {
			t.Errorf("%q is completed by %q, want %q", c.typed, got, c.wanted)
		}
	}
	if got := completions(t, s, "to"); len(got) != 1 || !strings.HasPrefix(got[0], "topic\t") {
		t.Errorf("commands are completed by %q", got)
	}
}

func TestScriptsForShellsAreMade(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if output := succeed(t, script{}, "", "completion", shell); !strings.Contains(output, "ringlog") {
			t.Errorf("%s: %s", shell, output)
		}
	}
}
