package stream

import (
	"log/slog"
	"sync"
	"time"
)

// limitedLog writes at most one warning per message and second, and says how
// many it kept back: whoever attacks must not fill the disk with our complaints.
type limitedLog struct {
	logger *slog.Logger
	mu     struct {
		sync.Mutex
		messages map[string]*limitedMessage // keys are the literals of this package
	}
}

type limitedMessage struct {
	last     time.Time
	withheld int
}

const limitedLogEvery = time.Second

func newLimitedLog(logger *slog.Logger) *limitedLog {
	l := &limitedLog{logger: logger}
	l.mu.messages = make(map[string]*limitedMessage)
	return l
}

// warn logs message, a literal, with its attributes unless it did so within the last second.
func (l *limitedLog) warn(message string, attributes ...any) {
	now := time.Now()
	l.mu.Lock()
	m := l.mu.messages[message]
	if m == nil {
		m = new(limitedMessage)
		l.mu.messages[message] = m
	}
	if now.Sub(m.last) < limitedLogEvery {
		m.withheld++
		l.mu.Unlock()
		return
	}
	withheld := m.withheld
	m.last, m.withheld = now, 0
	l.mu.Unlock()
	if withheld > 0 {
		attributes = append(attributes, "withheld", withheld)
	}
	l.logger.Warn(message, attributes...)
}
