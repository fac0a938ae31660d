package lint

import (
	"go/ast"
	"go/token"
	"strconv"
)

// checkTestSleep bans time.Sleep from tests: it makes them slow when the
// machine is fast and wrong when it is slow.
func checkTestSleep(t *Tree) (findings []Finding) {
	for _, f := range t.Go {
		clock := f.localName("time")
		if !f.Test || clock == "" {
			continue
		}
		ast.Inspect(f.Syntax, func(node ast.Node) bool {
			selector, ok := node.(*ast.SelectorExpr)
			if !ok || selector.Sel.Name != "Sleep" {
				return true
			}
			if on, ok := selector.X.(*ast.Ident); ok && on.Name == clock {
				findings = append(findings, Finding{Path: f.Path, Line: t.line(selector.Pos()),
					Breach: "a test sleeps",
					Remedy: "wait for the event itself: a channel, a condition polled by a ticker with a deadline, or a clock that the test moves"})
			}
			return true
		})
	}
	return findings
}

// skipReasonBytesMin is shorter than any explanation.
const skipReasonBytesMin = 40

// checkTestSkip lets a test be skipped only with a declared constant that says
// what is missing and where the test does run.
func checkTestSkip(t *Tree) (findings []Finding) {
	constants := t.stringConstants()
	for _, f := range t.Go {
		if !f.Test {
			continue
		}
		ast.Inspect(f.Syntax, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			selector, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			on, ok := selector.X.(*ast.Ident)
			if !ok || on.Name != "t" && on.Name != "b" && on.Name != "f" && on.Name != "tb" {
				return true
			}
			switch selector.Sel.Name {
			case "SkipNow":
			case "Skip", "Skipf":
				if len(call.Args) > 0 {
					if reason, ok := call.Args[0].(*ast.Ident); ok && len(constants[f.Package][reason.Name]) >= skipReasonBytesMin {
						return true
					}
				}
			default:
				return true
			}
			findings = append(findings, Finding{Path: f.Path, Line: t.line(call.Pos()),
				Breach: "a test is skipped without an explanation",
				Remedy: "declare a string constant that says what is missing here and where the test runs, and skip with it"})
			return true
		})
	}
	return findings
}

// stringConstants returns the string constants of each package by name.
func (t *Tree) stringConstants() map[string]map[string]string {
	constants := map[string]map[string]string{}
	for _, f := range t.Go {
		if constants[f.Package] == nil {
			constants[f.Package] = map[string]string{}
		}
		ast.Inspect(f.Syntax, func(node ast.Node) bool {
			declaration, ok := node.(*ast.GenDecl)
			if !ok || declaration.Tok != token.CONST {
				return true
			}
			for _, spec := range declaration.Specs {
				values := spec.(*ast.ValueSpec)
				for i, name := range values.Names {
					if i < len(values.Values) {
						constants[f.Package][name.Name] = constantString(values.Values[i])
					}
				}
			}
			return true
		})
	}
	return constants
}

// constantString returns the text of a string literal or of a sum of them.
func constantString(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		if e.Kind != token.STRING || err != nil {
			return ""
		}
		return text
	case *ast.BinaryExpr:
		return constantString(e.X) + constantString(e.Y)
	case *ast.ParenExpr:
		return constantString(e.X)
	}
	return ""
}
