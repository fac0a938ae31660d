package kafka

import (
	"strings"
	"time"
)

// clockLogInterval is the time between two warnings about clocks of producers, which are wrong
// all the time when they are wrong.
const clockLogInterval = time.Minute

// clientTextBytesMax is how much of a string that a peer chose goes into a log line.
const clientTextBytesMax = 128

// clip shortens text that a peer chose, and makes it text: what is not UTF-8 becomes the
// replacement character. The logger's handler quotes what is not printable.
func clip(text string) string {
	if len(text) > clientTextBytesMax {
		text = text[:clientTextBytesMax] + "..."
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
