package faulttest

import (
	"fmt"
	"slices"
	"strings"
)

// The matrix stands between these lines of the page; what is around them is written by hand.
const (
	pageBegin = "<!-- The tables are made by go test ./engine/faulttest -rewrite. -->"
	pageEnd   = "<!-- End of the tables. -->"
)

// cell is a trial and what it showed; empty when the operation does not happen then.
type cell struct {
	trial    trial
	text     string
	sentence string
}

// trials lists every cell, in the order of the page.
func trials() (cells []*cell) {
	for f := range fileKinds {
		for _, operation := range operations {
			if !fileKinds[f].has(operation) {
				continue
			}
			for _, when := range []phase{atWork, atStart} {
				for k := range faults {
					if faults[k].meets(operation) && (when == atWork || !faults[k].hangs) {
						cells = append(cells, &cell{trial: trial{&fileKinds[f], operation, &faults[k], when}})
					}
				}
			}
		}
	}
	return cells
}

// render makes the tables.
func render(cells []*cell) string {
	var b strings.Builder
	for f := range fileKinds {
		kind := &fileKinds[f]
		var of []*cell
		for _, c := range cells {
			if c.trial.file == kind && c.text != "" {
				of = append(of, c)
			}
		}
		if len(of) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n### %s\n", kind.name)
		if kind.about != "" {
			fmt.Fprintf(&b, "\n%s\n", kind.about)
		}
		renderTable(&b, of)
	}
	return b.String()
}

// renderTable makes the table of one kind of file: a row for each operation and phase that has a cell, a
// column for each fault that has one.
func renderTable(b *strings.Builder, cells []*cell) {
	var columns []*fault
	for k := range faults {
		if slices.ContainsFunc(cells, func(c *cell) bool { return c.trial.fault == &faults[k] }) {
			columns = append(columns, &faults[k])
		}
	}
	fmt.Fprint(b, "\n| Operation | When |")
	for _, column := range columns {
		fmt.Fprintf(b, " %s |", column.name)
	}
	fmt.Fprintf(b, "\n|---|---|%s\n", strings.Repeat("---|", len(columns)))
	var sentences []string
	for _, operation := range operations {
		for _, when := range []phase{atWork, atStart} {
			row, any := fmt.Sprintf("| %s | %s |", operation, when), false
			for _, column := range columns {
				text := ""
				for _, c := range cells {
					if c.trial.operation == operation && c.trial.phase == when && c.trial.fault == column {
						text, any = c.text, true
						if c.sentence != "" {
							text += fmt.Sprintf(" [%d]", number(&sentences, c.sentence))
						}
					}
				}
				row += " " + text + " |"
			}
			if any {
				fmt.Fprintln(b, row)
			}
		}
	}
	if len(sentences) > 0 {
		fmt.Fprintln(b)
	}
	for i, sentence := range sentences {
		fmt.Fprintf(b, "%d. `%s`\n", i+1, sentence)
	}
}

// number returns the number of a sentence in the list under a table.
func number(sentences *[]string, sentence string) int {
	at := slices.Index(*sentences, sentence)
	if at < 0 {
		at = len(*sentences)
		*sentences = append(*sentences, sentence)
	}
	return at + 1
}
