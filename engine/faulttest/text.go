package faulttest

import (
	"log/slog"
	"regexp"
	"strings"
)

// text is the cell: what was seen, in the words of the page's legend.
func (o *seen) text() string {
	var parts []string
	say := func(when bool, what string) {
		if when {
			parts = append(parts, what)
		}
	}
	say(o.start != nil, "**start refused**")
	say(len(o.offline) > 0, "offline: "+labels(o.offline))
	say(len(o.fenced) > 0, "fenced: "+labels(o.fenced))
	switch {
	case o.shard:
		parts = append(parts, "**shard poisoned**")
	case len(o.poisoned) > 0:
		parts = append(parts, "**poisoned**: "+labels(o.poisoned))
	}
	say(o.refused, "produces refused")
	say(o.waits, "waits")
	say(o.corrupt, "reads fenced")
	if len(o.refusals) > 0 {
		parts = append(parts, strings.Join(o.refusals, ", ")+" refused")
	}
	if len(o.waitFor) > 0 {
		parts = append(parts, strings.Join(o.waitFor, ", ")+" waits")
	}
	say(o.slow, "said")
	if len(parts) == 0 {
		if o.said >= slog.LevelWarn {
			parts = append(parts, "logged")
		} else {
			parts = append(parts, "nothing")
		}
	}
	if o.cut != "" {
		parts = append(parts, o.cut)
	}
	return strings.Join(parts, "; ")
}

// labels names logs; those of a shard, or all, are named as that.
func labels(subjects []*subject) string {
	if len(subjects) >= 3 {
		return "all logs"
	}
	var names []string
	for _, s := range subjects {
		names = append(names, s.label)
	}
	return strings.Join(names, " and ")
}

// Names of this run in the engine's sentences, and what stands for them on the page.
var sentenceNames = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`[0-9a-f]{32}`), "LOGID"},
	{regexp.MustCompile(`[0-9]{20}\.`), "OFFSET."},
	{regexp.MustCompile(`coming-[0-9]+`), "coming-N"},
	{regexp.MustCompile(`shard-[0-9]+`), "shard-N"},
	{regexp.MustCompile(`shard [0-9]+:`), "shard N:"},
	{regexp.MustCompile(`at [0-9]+:`), "at N:"},
	{regexp.MustCompile(`at byte [0-9]+`), "at byte N"},
	{regexp.MustCompile(`[0-9a-f]{8}, computed [0-9a-f]{8}`), "X, computed Y"},
}

// firstSentence is what the engine said first of a trial in which something was refused; "" when nothing was.
func (o *seen) firstSentence() string {
	if o.sentence == nil {
		return ""
	}
	text := o.sentence.Error()
	for _, name := range sentenceNames {
		text = name.pattern.ReplaceAllString(text, name.instead)
	}
	return text
}
