package lint

import (
	"regexp"
	"strings"
)

// plantedSources is where this package's own tests keep text that breaks the
// rules.
const plantedSources = "internal/lint/testdata/"

// machinePatterns are traces of one machine. They are written in pieces so that this
// file does not contain what it looks for.
var machinePatterns = []struct {
	pattern *regexp.Regexp
	remedy  string
}{
	{regexp.MustCompile(`(^|[^\w.~-])/(work|root|home)` + `/`), "use a path below the module, t.TempDir or a flag"},
	{regexp.MustCompile(`\b(proxy\.golang|sum\.golang|pypi|files\.pythonhosted|deb\.debian)` + `\.org\b`), "install by package name: each machine knows where its packages come from"},
	{regexp.MustCompile(`\b(registry\.npmjs|registry\.yarnpkg|repo1?\.maven)` + `\.(org|com|apache)\b`), "install by package name: each machine knows where its packages come from"},
	{regexp.MustCompile(`\b(GOPROXY|GONOSUMDB|GOFLAGS)` + `=`), "leave the toolchain as the machine has it set up"},
	{regexp.MustCompile(`(?i)\b(chat ?b` + `ots?|language m` + `odels?|coding a` + `ssistants?|this s` + `print)\b`), "describe the program, not how it came about"},
}

// checkMachine finds what would be true on one machine only.
func checkMachine(t *Tree) (findings []Finding) {
	return t.search(func(line string) (breach, remedy string) {
		for _, p := range machinePatterns {
			if found := p.pattern.FindString(line); found != "" {
				return "contains " + strings.TrimSpace(found), p.remedy
			}
		}
		return "", ""
	})
}

// unfinished are the marks of work left for another day, in pieces as above.
var unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX|HA` + `CK)\b`)

// checkUnfinished finds work left for another day.
func checkUnfinished(t *Tree) (findings []Finding) {
	return t.search(func(line string) (breach, remedy string) {
		if found := unfinished.FindString(line); found != "" {
			return "contains " + found, "finish it, or say in plain words what is not there and why"
		}
		return "", ""
	})
}

// search reports, for every text file but planted ones, the lines on which
// look finds something.
func (t *Tree) search(look func(line string) (breach, remedy string)) (findings []Finding) {
	for _, f := range t.Files {
		if strings.HasPrefix(f.Path, plantedSources) || f.Path == "go.sum" {
			continue
		}
		number := 0
		for line := range strings.Lines(string(f.Source)) {
			number++
			if breach, remedy := look(line); breach != "" {
				findings = append(findings, Finding{Path: f.Path, Line: number, Breach: breach, Remedy: remedy})
			}
		}
	}
	return findings
}
