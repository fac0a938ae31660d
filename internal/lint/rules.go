package lint

import (
	"cmp"
	"slices"
)

// Rule is one rule of the house.
type Rule struct {
	Name  string
	Check func(*Tree) []Finding
}

// Rules are all rules, in the order in which they are reported.
var Rules = []Rule{
	{"parse", func(t *Tree) []Finding { return t.Broken }},
	{"arrows", checkArrows},
	{"libraries", checkLibraries},
	{"pure", checkPure},
	{"unsafe", checkUnsafe},
	{"format", checkFormat},
	{"package-comment", checkPackageComment},
	{"file-length", checkFileLength},
	{"test-sleep", checkTestSleep},
	{"test-skip", checkTestSkip},
	{"machine", checkMachine},
	{"unfinished", checkUnfinished},
	{"house", checkHouse},
	{"dependencies", checkDependencies},
	{"links", checkLinks},
	{"logs", checkLogs},
	{"references", checkReferences},
}

// check runs one rule and returns its findings by file and line.
func (r Rule) check(tree *Tree) []Finding {
	findings := r.Check(tree)
	for i := range findings {
		findings[i].Rule = r.Name
	}
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Breach, b.Breach))
	})
	return findings
}
