package server

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// configFileBytesMax bounds a configuration file.
const configFileBytesMax = 1 << 20

// ReadFile sets what a TOML file says: one setting per line, by its name or
// Kafka's.
//
//	data-dir = "/var/lib/ringlog"
//	num.partitions = 3
//	log.retention.hours = 48
//
// A dot is part of the name here, as in Kafka's own files, and makes no table: TOML as such
// would refuse max.connections beside max.connections.per.ip. The error
// joins all faults, each with its line.
func (c *Config) ReadFile(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("configuration file: %w", err)
	}
	if info.Size() > configFileBytesMax {
		return fmt.Errorf("configuration file %s: %d bytes are more than %d", path, info.Size(), configFileBytesMax)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("configuration file: %w", err)
	}
	return c.read(path, text)
}

func (c *Config) read(path string, text []byte) error {
	var parser unstable.Parser
	parser.Reset(text)
	var faults []error
	lineOfSetting := make(map[string]int)
	for parser.NextExpression() {
		expression := parser.Expression()
		if expression.Kind == unstable.Comment {
			continue
		}
		line := 0
		var parts []string
		if expression.Kind == unstable.KeyValue || expression.Kind == unstable.Table || expression.Kind == unstable.ArrayTable {
			for key := expression.Key(); key.Next(); {
				parts = append(parts, string(key.Node().Data))
				if line == 0 {
					line = parser.Shape(key.Node().Raw).Start.Line
				}
			}
		}
		name := strings.Join(parts, ".")
		fault := func(err error) { faults = append(faults, fmt.Errorf("%s:%d: %w", path, line, err)) }
		if expression.Kind != unstable.KeyValue {
			fault(fmt.Errorf("[%s]: there are no tables here, write the whole name of each setting", name))
			continue
		}
		known, err := canonical(name)
		if err != nil {
			fault(err)
			continue
		}
		if before, again := lineOfSetting[known]; again {
			fault(fmt.Errorf("%s is set in line %d already", name, before))
			continue
		}
		lineOfSetting[known] = line
		value, err := tomlText(expression.Value())
		if err == nil {
			err = c.Set(name, value)
		}
		if err != nil {
			fault(err)
		}
	}
	if err := parser.Error(); err != nil {
		faults = append(faults, fmt.Errorf("%s:%d: %w", path, lineOfError(text, err), err))
	}
	return errors.Join(faults...)
}

// tomlText returns a value as the text that a flag would have.
func tomlText(value *unstable.Node) (string, error) {
	text := string(value.Data)
	switch value.Kind {
	case unstable.String, unstable.Bool:
		return text, nil
	case unstable.Integer:
		number, err := strconv.ParseInt(strings.TrimPrefix(text, "+"), 0, 64)
		if err != nil {
			return "", fmt.Errorf("%s is not a number of 64 bits", text)
		}
		return strconv.FormatInt(number, 10), nil
	case unstable.Float:
		return strings.ReplaceAll(text, "_", ""), nil
	case unstable.Array:
		var items []string
		for children := value.Children(); children.Next(); {
			item, err := tomlText(children.Node())
			if err != nil {
				return "", err
			}
			items = append(items, item)
		}
		return strings.Join(items, ","), nil
	}
	return "", fmt.Errorf("a value of kind %s is not understood here", strings.ToLower(value.Kind.String()))
}

// lineOfError finds the line of a syntax error, of which the parser names the bytes.
func lineOfError(text []byte, err error) int {
	var syntax *unstable.ParserError
	if !errors.As(err, &syntax) || len(syntax.Highlight) == 0 {
		return 1 + bytes.Count(text, []byte("\n"))
	}
	rest := cap(syntax.Highlight) // Highlight is a slice of text
	at := len(text) - min(rest, len(text))
	return 1 + bytes.Count(text[:at], []byte("\n"))
}
