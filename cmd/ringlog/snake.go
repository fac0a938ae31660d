package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
)

// snakeCase returns what a value of the broker's own types is in the JSON of this program: names
// as in log_id, and ids of 16 bytes in hex. It is for values that are shown and not sent, so
// that the types need no tags.
func snakeCase(value any) any {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	var plain any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&plain); err != nil {
		return err.Error()
	}
	return renamed("", plain)
}

// renamed renames what is below value, which has a name itself.
func renamed(name string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, inner := range v {
			out[snakeName(name)] = renamed(name, inner)
		}
		return out
	case []any:
		if strings.HasSuffix(name, "ID") || name == "Store" {
			if id, ok := hexID(v); ok {
				return id
			}
		}
		for i := range v {
			v[i] = renamed(name, v[i])
		}
	}
	return value
}

// hexID takes 16 numbers of one byte each for an id.
func hexID(list []any) (string, bool) {
	if len(list) != 16 {
		return "", false
	}
	var id [16]byte
	for i, inner := range list {
		number, ok := inner.(json.Number)
		if !ok {
			return "", false
		}
		n, err := number.Int64()
		if err != nil || n < 0 || n > 255 {
			return "", false
		}
		id[i] = byte(n)
	}
	return fmt.Sprintf("%x", id), true
}

// snakeName turns LogID into log_id and MaxTimestamp into max_timestamp; what has no
// capital in front, such as the name of a configuration, stays as it is.
func snakeName(name string) string {
	if name == "" || !unicode.IsUpper(rune(name[0])) {
		return name
	}
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if unicode.IsUpper(r) && i > 0 && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
