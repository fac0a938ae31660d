package meta

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// check returns why value is not of type t, as a sentence, or "".
func (t ConfigType) check(value string) string {
	switch t {
	case ConfigBoolean:
		if _, ok := parseBoolean(value); !ok {
			return "it must be true or false"
		}
	case ConfigShort:
		return checkInteger(value, 16)
	case ConfigInt:
		return checkInteger(value, 32)
	case ConfigLong:
		return checkInteger(value, 64)
	case ConfigDouble:
		if number, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err != nil || math.IsNaN(number) || math.IsInf(number, 0) {
			return "it must be a number"
		}
	}
	return ""
}

func checkInteger(value string, bits int) string {
	if _, err := strconv.ParseInt(strings.TrimSpace(value), 10, bits); err != nil {
		return fmt.Sprintf("it must be a whole number of %d bits", bits)
	}
	return ""
}

// canonical returns the one spelling of value among those that mean the same.
func (t ConfigType) canonical(value string) string {
	switch t {
	case ConfigBoolean, ConfigShort, ConfigInt, ConfigLong:
		return strings.ToLower(strings.TrimSpace(value))
	case ConfigDouble:
		if number, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil {
			return strconv.FormatFloat(number, 'g', -1, 64)
		}
	case ConfigList:
		return strings.Join(ParseConfigList(value), ",")
	}
	return value
}

func parseBoolean(value string) (is, ok bool) {
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "true":
		return true, true
	case "false":
		return false, true
	}
	return false, false
}

// ParseConfigList cuts a list value at its commas; "" is the empty list.
func ParseConfigList(value string) []string {
	value = strings.TrimSpace(value)
	if value == "" {
		return nil
	}
	items := strings.Split(value, ",")
	for n := range items {
		items[n] = strings.TrimSpace(items[n])
	}
	return items
}

// atLeast accepts whole numbers from low on.
func atLeast(low int64) func(string) string { return between(low, math.MaxInt64) }

// between accepts whole numbers from low to high.
func between(low, high int64) func(string) string {
	return func(value string) string {
		number, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		switch {
		case err != nil:
			return "it must be a whole number"
		case number < low:
			return fmt.Sprintf("it must be at least %d", low)
		case number > high:
			return fmt.Sprintf("it must be at most %d", high)
		}
		return ""
	}
}

// defaultOr accepts one special number besides those from low to high.
func defaultOr(special, low, high int64) func(string) string {
	check := between(low, high)
	return func(value string) string {
		if strings.TrimSpace(value) == strconv.FormatInt(special, 10) {
			return ""
		}
		if reason := check(value); reason != "" {
			return fmt.Sprintf("%s, or %d for the codec's own default", reason, special)
		}
		return ""
	}
}

// ratio accepts numbers from 0 to 1.
func ratio(value string) string {
	if number, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err != nil || number < 0 || number > 1 {
		return "it must be a number from 0 to 1"
	}
	return ""
}

// positive accepts numbers above 0.
func positive(value string) string {
	if number, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err != nil || number <= 0 {
		return "it must be a number above 0"
	}
	return ""
}

// oneOf accepts the values named.
func oneOf(values ...string) func(string) string {
	return func(value string) string {
		for _, one := range values {
			if value == one {
				return ""
			}
		}
		return "it must be one of " + strings.Join(values, ", ")
	}
}

// listOf accepts lists, be they empty, of the values named, each at most once.
func listOf(values ...string) func(string) string {
	check := oneOf(values...)
	return func(value string) string {
		items := ParseConfigList(value)
		for n, item := range items {
			if reason := check(item); reason != "" {
				return "each of its items: " + reason
			}
			for _, before := range items[:n] {
				if item == before {
					return fmt.Sprintf("%q is named twice", item)
				}
			}
		}
		return ""
	}
}

// throttledReplicas accepts "", "*" and lists of partition:broker.
func throttledReplicas(value string) string {
	for _, item := range ParseConfigList(value) {
		if item == "*" && strings.TrimSpace(value) == "*" {
			return ""
		}
		partition, broker, found := strings.Cut(item, ":")
		if !found || checkInteger(partition, 32) != "" || checkInteger(broker, 32) != "" {
			return "it must be *, or a list of partition:broker"
		}
	}
	return ""
}

// Nearest returns the name that is most like the one given, for a "did you mean",
// if any is near enough to be what was meant.
func Nearest(name string, names []string) (string, bool) {
	best, bestDistance := "", len(name)/3+1
	for _, candidate := range names {
		if distance := editDistance(strings.ToLower(name), strings.ToLower(candidate)); distance < bestDistance {
			best, bestDistance = candidate, distance
		}
	}
	return best, best != ""
}

// editDistance is the Levenshtein distance in bytes; a long name is as far as can be.
func editDistance(a, b string) int {
	if len(a) > 128 || len(b) > 128 {
		return math.MaxInt
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal, row[j] = row[j], min(row[j]+1, row[j-1]+1, cost)
		}
	}
	return row[len(b)]
}
