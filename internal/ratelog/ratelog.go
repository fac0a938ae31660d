// Package ratelog is for log lines that peers can provoke: whoever attacks must not fill the disk with our
// complaints. The network, the protocols and the broker write through it, from any goroutine.
package ratelog

import (
	"log/slog"
	"sync"
	"time"
)

// Interval is the usual time between two lines of the same message.
const Interval = time.Second

// Logger writes at most one line per message and interval, and says how many it kept back. A
// flood of one message does not hide the first of another.
type Logger struct {
	logger   *slog.Logger
	interval time.Duration
	mu       struct {
		sync.Mutex
		messages map[string]*message // keys are literals of this program
	}
}

type message struct {
	last     time.Time
	withheld int
}

// New returns a Logger that writes to logger, the same message once in an interval.
func New(logger *slog.Logger, interval time.Duration) *Logger {
	l := &Logger{logger: logger, interval: interval}
	l.mu.messages = make(map[string]*message)
	return l
}

// Warn writes text, a literal, with its attributes, unless it did so within the last interval.
func (l *Logger) Warn(text string, attributes ...any) {
	withheld, pass := l.pass(text, time.Now())
	if !pass {
		return
	}
	if withheld > 0 {
		attributes = append(attributes, "withheld", withheld)
	}
	l.logger.Warn(text, attributes...)
}

// Error is Warn for what is a fault of ours or of the machine.
func (l *Logger) Error(text string, attributes ...any) {
	withheld, pass := l.pass(text, time.Now())
	if !pass {
		return
	}
	if withheld > 0 {
		attributes = append(attributes, "withheld", withheld)
	}
	l.logger.Error(text, attributes...)
}

// pass decides whether a line is written now, and how many were not before it.
func (l *Logger) pass(text string, now time.Time) (withheld int, pass bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.mu.messages[text]
	if m == nil {
		m = new(message)
		l.mu.messages[text] = m
	}
	if now.Sub(m.last) < l.interval {
		m.withheld++
		return 0, false
	}
	withheld = m.withheld
	m.last, m.withheld = now, 0
	return withheld, true
}
