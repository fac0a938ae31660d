package doctor

import (
	"fmt"
	"slices"
)

// Level says how much a finding matters.
type Level uint8

// The levels, in order.
const (
	// OK: nothing to do.
	OK Level = iota
	// Warning: the broker works, but slower, or safe only as long as something holds.
	Warning
	// Error: the broker does not start, does not keep its promise, or cannot be reached.
	Error
)

// levelNames are how levels are written in JSON; scripts go by them.
var levelNames = [...]string{OK: "ok", Warning: "warning", Error: "error"}

// String names the level.
func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return fmt.Sprintf("level %d", uint8(l))
}

// MarshalText implements encoding.TextMarshaler.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler, for programs that read a report.
func (l *Level) UnmarshalText(text []byte) error {
	at := slices.Index(levelNames[:], string(text))
	if at < 0 {
		return fmt.Errorf("doctor: %q is no level", text)
	}
	*l = Level(at)
	return nil
}

// Finding is what one check has to say.
type Finding struct {
	// Check names the subject, one word; it is stable, so that scripts may look for it.
	Check string `json:"check"`
	Level Level  `json:"level"`
	// Seen is what was found, in a sentence with its figures.
	Seen string `json:"seen"`
	// Why says what it means for a broker, and Do what to do about it. Both are empty
	// when all is well.
	Why string `json:"why,omitempty"`
	Do  string `json:"do,omitempty"`
}

// Worst is the highest level among findings; OK when there is none.
func Worst(findings []Finding) (worst Level) {
	for i := range findings {
		worst = max(worst, findings[i].Level)
	}
	return worst
}

// Count is how many findings have the level.
func Count(findings []Finding, level Level) (count int) {
	for i := range findings {
		if findings[i].Level == level {
			count++
		}
	}
	return count
}

// list collects the findings of one examination.
type list []Finding

func (l *list) ok(check, seen string, values ...any) {
	*l = append(*l, Finding{Check: check, Level: OK, Seen: fmt.Sprintf(seen, values...)})
}

func (l *list) warn(check, seen, why, do string) {
	*l = append(*l, Finding{Check: check, Level: Warning, Seen: seen, Why: why, Do: do})
}

func (l *list) fail(check, seen, why, do string) {
	*l = append(*l, Finding{Check: check, Level: Error, Seen: seen, Why: why, Do: do})
}
