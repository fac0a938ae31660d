package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// print writes a report: as one JSON value with --json, else by the function
// that writes it for people.
func (app *application) print(report any, forPeople func()) error {
	if !app.json {
		forPeople()
		return nil
	}
	encoder := json.NewEncoder(app.output)
	encoder.SetEscapeHTML(false)
	if !app.jsonLines {
		encoder.SetIndent("", "  ")
	}
	if err := encoder.Encode(report); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// table writes rows of cells in aligned columns, the first being the headings.
func table(output io.Writer, rows [][]string) {
	columns := tabwriter.NewWriter(output, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				fmt.Fprint(columns, "\t")
			}
			fmt.Fprint(columns, cell)
		}
		fmt.Fprintln(columns)
	}
	columns.Flush()
}

// count writes a number with its noun: "1 warning", "2 batches".
func count(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "x"), strings.HasSuffix(noun, "ch"):
		noun += "e"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
