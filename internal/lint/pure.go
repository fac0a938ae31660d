package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strconv"
)

// purePackages decide and do nothing else: Step(now, event) → effects. That is
// what lets a whole cluster be replayed from one seed.
var purePackages = []string{"meta/...", "replica/...", "engine/plan/...", "engine/compact/...", "engine/journal/...", "engine/model/...", "raftctl/controller/...", "frontend/kafka/fetchsession/...", "group/...", "txn/...", "doctor", "lag"}

// impureImports bring in clocks, threads, chance or the outside world.
var impureImports = map[string]string{
	"crypto/rand": "take chance as an input: a seeded *rand.Rand handed in by the caller",
	"io/ioutil":   "leave files to the caller",
	"log":         "return an effect or an error; the caller logs",
	"log/slog":    "return an effect or an error; the caller logs",
	"net":         "leave connections to the caller",
	"os":          "leave files and processes to the caller",
	"os/exec":     "leave files and processes to the caller",
	"os/signal":   "leave files and processes to the caller",
	"sync":        "a pure core has one owner and needs no lock",
	"sync/atomic": "a pure core has one owner and needs no atomics",
	"syscall":     "leave the system to the caller",
	"unique":      "it shares a table with the whole process",
	"runtime":     "what the scheduler does must not decide anything here",
	"math/rand":   "use math/rand/v2 with a seeded source handed in by the caller",
}

// impureClock are the functions of package time that read or wait for the
// wall clock; its types and arithmetic are welcome.
var impureClock = []string{"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "NewTimer", "NewTicker", "Tick"}

// seededRand are the functions of math/rand/v2 that do not draw from the
// global source.
var seededRand = []string{"New", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "Source", "PCG", "ChaCha8", "Zipf"}

const mapRemedy = `sort the keys (slices.Sorted(maps.Keys(m))), or prove in a comment with the words "any order" that the order cannot be seen`

// checkPure bans clocks, goroutines, chance, I/O and map order from the pure
// packages. Their tests may do as they like.
func checkPure(t *Tree) (findings []Finding) {
	types := newTypeReader(t)
	for _, f := range t.Go {
		if f.Test || !matchesAny(purePackages, f.Package) {
			continue
		}
		report := func(at token.Pos, breach, remedy string) {
			findings = append(findings, Finding{Path: f.Path, Line: t.line(at), Breach: breach, Remedy: remedy})
		}
		for _, spec := range f.Syntax.Imports {
			if remedy, banned := impureImports[importPath(spec)]; banned {
				report(spec.Pos(), fmt.Sprintf("pure package %s imports %s", f.Package, importPath(spec)), remedy)
			}
		}
		clock, chance := f.localName("time"), f.localName("math/rand/v2")
		ordered := t.commentLines(f, "any order")
		sorted := map[ast.Node]bool{}
		ast.Inspect(f.Syntax, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.GoStmt:
				report(node.Pos(), "pure package starts a goroutine", "return an effect and let the caller run it")
			case *ast.SelectStmt:
				report(node.Pos(), "pure package selects", "make what it waits for an event of Step")
			case *ast.CallExpr:
				if sorting := f.calls(node, "slices", "Sorted", "SortedFunc", "SortedStableFunc"); sorting && len(node.Args) > 0 {
					sorted[node.Args[0]] = true
				}
				if f.calls(node, "maps", "Keys", "Values", "All") && !sorted[node] && !ordered[t.line(node.Pos())] {
					report(node.Pos(), "pure package walks a map in its own order", mapRemedy)
				}
			case *ast.RangeStmt:
				if types.isMap(f, node.X) && !ordered[t.line(node.Pos())] && !ordered[t.line(node.Pos())-1] {
					report(node.Pos(), "pure package ranges over a map", mapRemedy)
				}
			case *ast.SelectorExpr:
				on, _ := node.X.(*ast.Ident)
				switch {
				case on == nil:
				case clock != "" && on.Name == clock && slices.Contains(impureClock, node.Sel.Name):
					report(node.Pos(), "pure package calls time."+node.Sel.Name, "take the time as an argument of Step")
				case chance != "" && on.Name == chance && !slices.Contains(seededRand, node.Sel.Name):
					report(node.Pos(), "pure package draws rand."+node.Sel.Name+" from the global source", "take a seeded *rand.Rand from the caller")
				}
			}
			return true
		})
	}
	return findings
}

// calls says whether a call is of one of a package's functions.
func (f *GoFile) calls(call *ast.CallExpr, of string, functions ...string) bool {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains(functions, selector.Sel.Name) {
		return false
	}
	on, ok := selector.X.(*ast.Ident)
	return ok && on.Name == f.localName(of) && on.Name != ""
}

// localName returns the name under which a file knows an import, or "".
func (f *GoFile) localName(of string) string {
	for _, spec := range f.Syntax.Imports {
		if importPath(spec) != of {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		name := path.Base(of)
		if len(name) > 1 && name[0] == 'v' {
			if _, err := strconv.Atoi(name[1:]); err == nil {
				name = path.Base(path.Dir(of))
			}
		}
		return name
	}
	return ""
}
