package ratelog

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A thousand complaints in one second are one line, the next one says how many there were, and
// another message is not held back by them.
func TestOneLinePerMessageAndInterval(t *testing.T) {
	l := New(slog.New(slog.DiscardHandler), Interval)
	began := time.Unix(1_000_000, 0)
	passed := 0
	for i := range 1000 {
		if _, pass := l.pass("refused", began.Add(time.Duration(i)*time.Microsecond)); pass {
			passed++
		}
	}
	if passed != 1 {
		t.Errorf("%d lines in a millisecond", passed)
	}
	if withheld, pass := l.pass("closed", began); !pass || withheld != 0 {
		t.Errorf("another message: passes %t, %d withheld", pass, withheld)
	}
	if withheld, pass := l.pass("refused", began.Add(Interval)); !pass || withheld != 999 {
		t.Errorf("after the interval: passes %t, %d withheld", pass, withheld)
	}
	if withheld, pass := l.pass("refused", began.Add(2*Interval)); !pass || withheld != 0 {
		t.Errorf("after another: passes %t, %d withheld", pass, withheld)
	}
}

// What is written has its level and its attributes, and text of a peer is quoted by the handler.
func TestLinesAreQuoted(t *testing.T) {
	var out bytes.Buffer
	l := New(slog.New(slog.NewTextHandler(&out, nil)), Interval)
	l.Warn("refused", "client_id", "a\nlevel=ERROR msg=forged \x1b[2J")
	l.Error("failed", "code", 7)
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines:\n%s", len(lines), out.String())
	}
	for i, want := range []string{`level=WARN msg=refused client_id="a\nlevel=ERROR msg=forged \x1b[2J"`, "level=ERROR msg=failed code=7"} {
		if !strings.HasSuffix(lines[i], want) {
			t.Errorf("line %q, want %q", lines[i], want)
		}
	}
}
