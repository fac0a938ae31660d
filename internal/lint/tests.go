package lint

import (
	"go/ast"
	"go/token"
	"maps"
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
		f.testingCalls(func(call *ast.CallExpr, method string) {
			switch method {
			case "SkipNow":
			case "Skip", "Skipf":
				if len(call.Args) > 0 {
					if reason, ok := call.Args[0].(*ast.Ident); ok && len(constants[f.Package][reason.Name]) >= skipReasonBytesMin {
						return
					}
				}
			default:
				return
			}
			findings = append(findings, Finding{Path: f.Path, Line: t.line(call.Pos()),
				Breach: "a test is skipped without an explanation",
				Remedy: "declare a string constant that says what is missing here and where the test runs, and skip with it"})
		})
	}
	return findings
}

// testingCalls shows every call of a method of a *testing.T, B, F or a
// testing.TB that is a function's parameter. A fuzz target's T is none of them,
// like the T that property tests have of their own: its Skip only gives up an
// input.
func (f *GoFile) testingCalls(show func(call *ast.CallExpr, method string)) {
	var walk func(node ast.Node, parameters map[string]bool)
	walk = func(node ast.Node, parameters map[string]bool) {
		ast.Inspect(node, func(inner ast.Node) bool {
			switch inner := inner.(type) {
			case *ast.FuncDecl:
				if inner.Body != nil {
					walk(inner.Body, f.testingParameters(inner.Type, parameters))
				}
				return false
			case *ast.FuncLit:
				walk(inner.Body, f.testingParameters(inner.Type, parameters))
				return false
			case *ast.CallExpr:
				selector, ok := inner.Fun.(*ast.SelectorExpr)
				if !ok {
					break
				}
				on, ok := selector.X.(*ast.Ident)
				switch {
				case !ok || !parameters[on.Name]:
				case selector.Sel.Name == "Fuzz":
					return false
				default:
					show(inner, selector.Sel.Name)
				}
			}
			return true
		})
	}
	walk(f.Syntax, nil)
}

// testingParameters returns which names mean a testing.T or its like inside a
// function: its own parameters, and those of the functions around it.
func (f *GoFile) testingParameters(function *ast.FuncType, outer map[string]bool) map[string]bool {
	names := maps.Clone(outer)
	if names == nil {
		names = map[string]bool{}
	}
	for _, field := range function.Params.List {
		ofType := field.Type
		if pointer, ok := ofType.(*ast.StarExpr); ok {
			ofType = pointer.X
		}
		selector, ok := ofType.(*ast.SelectorExpr)
		isTesting := ok && lastName(selector.X) != "" && lastName(selector.X) == f.localName("testing")
		for _, name := range field.Names {
			names[name.Name] = isTesting
		}
	}
	return names
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

// lastName returns the last name of a path of selectors: c for a.b.c.
func lastName(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}
