package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"strings"
)

// unsafePackages may import unsafe: they hand addresses to the kernel or keep
// memory outside the Go heap.
var unsafePackages = []string{
	"buffer",               // off-heap arenas, alignment
	"engine/disk",          // alignment of what is submitted
	"engine/disk/uring",    // the shared rings
	"engine/disk/giouring", // the same, through the library
}

func checkUnsafe(t *Tree) (findings []Finding) {
	for _, f := range t.Go {
		for _, spec := range f.Syntax.Imports {
			if importPath(spec) == "unsafe" && !matchesAny(unsafePackages, f.Package) {
				findings = append(findings, Finding{Path: f.Path, Line: t.line(spec.Pos()),
					Breach: "unsafe in package " + f.Package,
					Remedy: "use a safe form, or move the trick into buffer or the disk's implementation"})
			}
		}
	}
	return findings
}

func checkFormat(t *Tree) (findings []Finding) {
	for _, f := range t.Go {
		formatted, err := format.Source(f.Source)
		if err != nil || bytes.Equal(formatted, f.Source) {
			continue // what does not parse is reported as that
		}
		findings = append(findings, Finding{Path: f.Path, Line: firstDifference(f.Source, formatted),
			Breach: "not formatted", Remedy: "gofmt -w " + f.Path})
	}
	return findings
}

func firstDifference(a, b []byte) (line int) {
	line = 1
	for i := 0; i < len(a) && i < len(b) && a[i] == b[i]; i++ {
		if a[i] == '\n' {
			line++
		}
	}
	return line
}

// checkPackageComment wants one comment per package that says what lives there.
func checkPackageComment(t *Tree) (findings []Finding) {
	comments, first := map[string]int{}, map[string]*GoFile{}
	for _, f := range t.Go {
		if f.Test {
			continue
		}
		if first[f.Package] == nil {
			first[f.Package] = f
		}
		if f.Syntax.Doc == nil {
			continue
		}
		comments[f.Package]++
		opening := "Package " + f.Syntax.Name.Name + " "
		if f.Syntax.Name.Name == "main" {
			opening = "Command "
		}
		if text := f.Syntax.Doc.Text(); !strings.HasPrefix(text, opening) {
			findings = append(findings, Finding{Path: f.Path, Line: t.line(f.Syntax.Name.Pos()),
				Breach: "the package comment does not begin with " + strings.TrimSpace(opening),
				Remedy: "say what lives here, who calls it and which goroutine owns it"})
		}
	}
	for _, name := range t.packages() {
		f := first[name]
		if f == nil {
			continue // only tests
		}
		switch comments[name] {
		case 0:
			findings = append(findings, Finding{Path: f.Path, Line: t.line(f.Syntax.Name.Pos()),
				Breach: fmt.Sprintf("package %s has no comment", name),
				Remedy: "say what lives here, who calls it and which goroutine owns it"})
		case 1:
		default:
			findings = append(findings, Finding{Path: f.Path, Line: t.line(f.Syntax.Name.Pos()),
				Breach: fmt.Sprintf("package %s has %d package comments", name, comments[name]),
				Remedy: "keep one; separate the others from the package clause by a blank line"})
		}
	}
	return findings
}

// linesMax is where a file usually hides a second noun.
const linesMax = 600

// longFiles are longer, each with its reason.
var longFiles = map[string]string{}

func checkFileLength(t *Tree) (findings []Finding) {
	for _, f := range t.Go {
		lines := bytes.Count(f.Source, []byte("\n"))
		_, excused := longFiles[f.Path]
		switch {
		case ast.IsGenerated(f.Syntax):
		case lines > linesMax && !excused:
			findings = append(findings, Finding{Path: f.Path,
				Breach: fmt.Sprintf("%d lines, more than %d", lines, linesMax),
				Remedy: "find the second noun and give it a file, or add it to longFiles in internal/lint/shape.go with a reason"})
		case lines <= linesMax && excused:
			findings = append(findings, Finding{Path: f.Path,
				Breach: "is in longFiles and is not long", Remedy: "take it off the list"})
		}
	}
	return findings
}

// commentLines returns the lines of a file that carry, or are covered by, a
// comment with the given words; a comment of several lines counts for its last.
func (t *Tree) commentLines(f *GoFile, words string) map[int]bool {
	lines := map[int]bool{}
	for _, group := range f.Syntax.Comments {
		if strings.Contains(group.Text(), words) {
			lines[t.line(group.Pos())] = true
			lines[t.line(group.End()-1)] = true
		}
	}
	return lines
}
