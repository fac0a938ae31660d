package lint

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// numbered is a list of the docs whose items comments call by number.
type numbered struct {
	page    string
	item    *regexp.Regexp // an item of the list; its group is the number
	mention *regexp.Regexp // a mention of items in a comment; its group has the numbers
}

var numberedLists = []numbered{
	{architecturePage, regexp.MustCompile(`^(\d+)\. `), regexp.MustCompile(`(?i)\brules? ((?:\d+|,| |to|and)+)`)},
	{reliabilityPage, regexp.MustCompile(`^\| (\d+) \|`), regexp.MustCompile(`(?i)\bscenarios? ((?:\d+|,| |to|and)+)`)},
}

var number = regexp.MustCompile(`\d+`)

// checkReferences looks up every rule and scenario that a comment calls by its
// number: a number that nobody can look up says nothing.
func checkReferences(t *Tree) (findings []Finding) {
	for _, list := range numberedLists {
		known := map[int]bool{}
		if page := t.file(list.page); page != nil {
			for line := range strings.Lines(string(page.Source)) {
				if item := list.item.FindStringSubmatch(line); item != nil {
					known[toNumber(item[1])] = true
				}
			}
		}
		for _, f := range t.Go {
			for _, group := range f.Syntax.Comments {
				for _, mention := range list.mention.FindAllStringSubmatch(group.Text(), -1) {
					for _, text := range number.FindAllString(mention[1], -1) {
						if !known[toNumber(text)] {
							findings = append(findings, Finding{Path: f.Path, Line: t.line(group.Pos()),
								Breach: fmt.Sprintf("%q calls number %s, which %s does not have", strings.TrimSpace(mention[0]), text, list.page),
								Remedy: "add it there, or say in words what is meant"})
						}
					}
				}
			}
		}
	}
	return findings
}

func toNumber(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return -1 // longer than any number of a list
	}
	return n
}
