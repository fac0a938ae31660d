package lint

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

const (
	architecturePage = "docs/architecture.md"
	dependenciesPage = "docs/dependencies.md"
	reliabilityPage  = "docs/reliability.md"
)

// tableName matches the first cell of a table's row when it is code.
var tableName = regexp.MustCompile("^\\| `([^`]+)`")

// tableNames returns the names in the first column of a page's tables whose
// first heading is the given one, with their lines.
func tableNames(page *File, heading string) map[string]int {
	names, number, wanted := map[string]int{}, 0, false
	for line := range strings.Lines(string(page.Source)) {
		number++
		switch cell := tableName.FindStringSubmatch(line); {
		case strings.HasPrefix(line, "| "+heading+" |"):
			wanted = true
		case !strings.HasPrefix(line, "|"):
			wanted = false
		case wanted && cell != nil:
			names[cell[1]] = number
		}
	}
	return names
}

// checkHouse holds the list of packages in docs/architecture.md against the
// folders: none missing, none invented.
func checkHouse(t *Tree) (findings []Finding) {
	page := t.file(architecturePage)
	if page == nil {
		return []Finding{{Path: architecturePage, Breach: "is missing", Remedy: "draw the house"}}
	}
	listed := tableNames(page, "Package")
	for _, name := range t.packages() {
		if listed[name] == 0 {
			findings = append(findings, Finding{Path: page.Path,
				Breach: "does not list package " + name, Remedy: "add its row: what lives there"})
		}
	}
	for name, line := range listed {
		if !slices.Contains(t.packages(), name) {
			findings = append(findings, Finding{Path: page.Path, Line: line,
				Breach: "lists " + name + ", which is no package", Remedy: "remove the row: the house has no empty rooms"})
		}
	}
	return findings
}

// requirement is a line of go.mod that names a module we chose.
type requirement struct {
	module, version string
	line            int
}

// requirements returns the modules that go.mod requires directly, and those of
// its tools.
func requirements(goMod *File) (direct []requirement) {
	var all []requirement
	var tools []string
	block, number := "", 0
	for line := range strings.Lines(string(goMod.Source)) {
		number++
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
			continue
		case fields[0] == ")":
			block = ""
			continue
		case len(fields) == 2 && fields[1] == "(":
			block = fields[0]
			continue
		case block == "" && len(fields) > 1:
			fields = append([]string{fields[0]}, fields[1:]...)
		case block != "":
			fields = append([]string{block}, fields...)
		}
		switch {
		case fields[0] == "tool" && len(fields) > 1:
			tools = append(tools, fields[1])
		case fields[0] == "require" && len(fields) > 2:
			r := requirement{fields[1], fields[2], number}
			all = append(all, r)
			if !strings.Contains(line, "// indirect") {
				direct = append(direct, r)
			}
		}
	}
	for _, r := range all {
		isTool := slices.ContainsFunc(tools, func(tool string) bool { return underLibrary(r.module, tool) })
		if isTool && !slices.Contains(direct, r) {
			direct = append(direct, r)
		}
	}
	return direct
}

// checkDependencies holds docs/dependencies.md against go.mod: every module we
// chose has its row, with the version in use.
func checkDependencies(t *Tree) (findings []Finding) {
	goMod, page := t.file("go.mod"), t.file(dependenciesPage)
	if page == nil {
		return []Finding{{Path: dependenciesPage, Breach: "is missing", Remedy: "list what each module is for"}}
	}
	listed := tableNames(page, "Module")
	lines := strings.Split(string(page.Source), "\n")
	direct := requirements(goMod)
	for _, r := range direct {
		line := listed[r.module]
		switch {
		case line == 0:
			findings = append(findings, Finding{Path: goMod.Path, Line: r.line,
				Breach: "requires " + r.module + ", which " + dependenciesPage + " does not explain",
				Remedy: "add its row: what for, why not our own, version; or do without it"})
		case !strings.Contains(lines[line-1], r.version):
			findings = append(findings, Finding{Path: page.Path, Line: line,
				Breach: fmt.Sprintf("%s is at another version than go.mod's %s", r.module, r.version), Remedy: "write the version in use"})
		}
	}
	for name, line := range listed {
		if !slices.ContainsFunc(direct, func(r requirement) bool { return r.module == name }) {
			findings = append(findings, Finding{Path: page.Path, Line: line,
				Breach: "explains " + name + ", which go.mod does not require directly", Remedy: "remove the row"})
		}
	}
	return findings
}

var (
	pageLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	pageHeading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	codeFence   = regexp.MustCompile("(?ms)^```.*?^```")
	notInSlug   = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// checkLinks follows every relative link of every page, headings included.
func checkLinks(t *Tree) (findings []Finding) {
	for _, f := range t.Files {
		if path.Ext(f.Path) != ".md" || inTestdata(f.Path) {
			continue
		}
		number := 0
		for line := range strings.Lines(string(f.Source)) {
			number++
			for _, link := range pageLink.FindAllStringSubmatch(line, -1) {
				if breach := t.follow(f, link[1]); breach != "" {
					findings = append(findings, Finding{Path: f.Path, Line: number, Breach: breach, Remedy: "mend the link"})
				}
			}
		}
	}
	return findings
}

// follow returns what is wrong with a link on a page, or "".
func (t *Tree) follow(from *File, link string) string {
	if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
		return ""
	}
	target, anchor, _ := strings.Cut(link, "#")
	page := from
	if target != "" {
		name := path.Join(path.Dir(from.Path), target)
		if _, err := fs.Stat(t.fsys, name); err != nil {
			return "links to " + link + ", which is not there"
		}
		page = t.file(name)
	}
	if anchor == "" {
		return ""
	}
	if page == nil || !slices.Contains(slugs(page), anchor) {
		return "links to " + link + ", but there is no such heading"
	}
	return ""
}

// slugs returns the anchors of a page's headings, as Markdown renderers make
// them.
func slugs(page *File) (anchors []string) {
	text := codeFence.ReplaceAllString(string(page.Source), "")
	for _, heading := range pageHeading.FindAllStringSubmatch(text, -1) {
		slug := notInSlug.ReplaceAllString(strings.ToLower(heading[1]), "")
		anchors = append(anchors, strings.ReplaceAll(strings.TrimSpace(slug), " ", "-"))
	}
	return anchors
}
