package lint

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	logsPage = "docs/logs.md"
	// logMessages is the heading above the list that is made from the source.
	logMessages = "## Messages\n"
)

// logKey is what a key looks like: something that a query can name without quotes.
var logKey = regexp.MustCompile(`^[a-z][a-z0-9_.]*$`)

// logCall is one line of source that may become a line of the log.
type logCall struct {
	file    *GoFile
	line    int
	level   string   // "INFO"
	message string   // what is not constant in it is "…"
	keys    []string // in order
	loose   bool     // some key is no constant
	addedTo bool     // the message is the caller's; keys are those added
}

// logLevels are the methods that write, of slog.Logger and of those that stand around one.
var logLevels = map[string]string{"debug": "DEBUG", "info": "INFO", "warn": "WARN", "error": "ERROR"}

// logCalls finds them: calls of such a method on something that is called a log or logger.
func logCalls(t *Tree) (calls []logCall) {
	for _, f := range t.Go {
		if f.Test {
			continue
		}
		for _, declaration := range f.Syntax.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || function.Body == nil {
				continue
			}
			ast.Inspect(function.Body, func(node ast.Node) bool {
				if call, ok := node.(*ast.CallExpr); ok {
					if c, logs := t.logCall(f, function, call); logs {
						calls = append(calls, c)
					}
				}
				return true
			})
		}
	}
	return calls
}

// logCall reads a call, if it is one that logs. Of code that hands on the message of its
// caller, or of a pure step, only the keys count that it adds: who made the message is found by itself.
func (t *Tree) logCall(f *GoFile, function *ast.FuncDecl, call *ast.CallExpr) (c logCall, logs bool) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return logCall{}, false
	}
	level := ""
	switch {
	case isLogger(method.X):
		level = logLevels[strings.ToLower(method.Sel.Name)]
	case method.Sel.Name == "Event" && finalName(method.X) == "effects": // of a coordinator: its runtime warns
		level = "WARN"
	}
	if level == "" {
		return logCall{}, false
	}
	c = logCall{file: f, line: t.line(call.Pos()), level: level, message: constantText(call.Args[0])}
	switch message := call.Args[0].(type) {
	case *ast.Ident:
		c.addedTo = hasParameter(function, message.Name)
	case *ast.SelectorExpr:
		c.addedTo = message.Sel.Name == "Message"
	}
	if !call.Ellipsis.IsValid() {
		c.readKeys(call.Args[1:])
		return c, true
	}
	spread := call.Args[len(call.Args)-1]
	if c.readAppended(spread) {
		return c, true
	}
	ast.Inspect(function.Body, func(node ast.Node) bool {
		if add, ok := node.(*ast.CallExpr); ok && len(add.Args) > 0 && finalName(add.Args[0]) == finalName(spread) {
			c.readAppended(add)
		}
		return true
	})
	return c, true
}

// readAppended takes the keys out of append([]any{"key", value}, …) and append(attributes, "key", value);
// false when the expression is neither.
func (c *logCall) readAppended(expression ast.Expr) bool {
	call, ok := expression.(*ast.CallExpr)
	if !ok || finalName(call.Fun) != "append" || len(call.Args) == 0 {
		return false
	}
	if list, ok := call.Args[0].(*ast.CompositeLit); ok {
		c.readKeys(list.Elts)
	} else if !call.Ellipsis.IsValid() {
		c.readKeys(call.Args[1:])
	}
	return true
}

// readKeys takes every second expression, from the first on.
func (c *logCall) readKeys(arguments []ast.Expr) {
	for i := 0; i < len(arguments); i += 2 {
		literal, ok := arguments[i].(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			c.loose = true
			return
		}
		key, err := strconv.Unquote(literal.Value)
		c.loose = c.loose || err != nil
		c.keys = append(c.keys, key)
	}
}

func hasParameter(function *ast.FuncDecl, name string) bool {
	for _, field := range function.Type.Params.List {
		for _, parameter := range field.Names {
			if parameter.Name == name {
				return true
			}
		}
	}
	return false
}

// isLogger says whether an expression ends in a name such as log, logger or Logger.
func isLogger(expression ast.Expr) bool {
	name := strings.ToLower(finalName(expression))
	return name == "log" || name == "slog" || strings.HasSuffix(name, "logger")
}

// finalName is the last name of an expression such as a.b.c; "" when it is none.
func finalName(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// constantText is a message with "…" for what is not constant in it.
func constantText(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return text
		}
	case *ast.BinaryExpr:
		return constantText(e.X) + constantText(e.Y)
	}
	return "…"
}

// checkLogs holds docs/logs.md against the source: operators search for keys and messages, so
// each is there, and has one meaning.
func checkLogs(t *Tree) (findings []Finding) {
	page := t.file(logsPage)
	if page == nil {
		return []Finding{{Path: logsPage, Breach: "is missing", Remedy: "list the keys and messages of the log"}}
	}
	listed, used := tableNames(page, "Key"), map[string]bool{}
	for _, c := range logCalls(t) {
		report := func(breach, remedy string) {
			findings = append(findings, Finding{Path: c.file.Path, Line: c.line, Breach: breach, Remedy: remedy})
		}
		if !c.addedTo && strings.Trim(c.message, "… ") == "" {
			report("logs a message that is not constant", "say in constant words what happened, and what differs in keys: operators search for messages")
		}
		if c.loose {
			report("logs a key that is not constant", "write the keys out: operators search for them")
		}
		for _, key := range c.keys {
			used[key] = true
			switch {
			case !logKey.MatchString(key):
				report(fmt.Sprintf("logs the key %q", key), "use lower case letters, digits, '_' and '.'")
			case listed[key] == 0:
				report(fmt.Sprintf("logs the key %q, which %s does not explain", key, logsPage), "use a key that is there, or add its row")
			}
		}
	}
	for key, line := range listed {
		if !used[key] {
			findings = append(findings, Finding{Path: page.Path, Line: line, Breach: "explains the key " + key + ", which nobody logs", Remedy: "remove the row"})
		}
	}
	if text := string(page.Source); text != withLogMessages(text, t) {
		findings = append(findings, Finding{Path: page.Path, Breach: "does not list the messages as the source has them",
			Remedy: "go test ./internal/lint -run LogMessages -rewrite"})
	}
	return findings
}

// withLogMessages is the page with its list of messages made anew.
func withLogMessages(page string, t *Tree) string {
	before, _, found := strings.Cut(page, logMessages)
	if !found {
		before = page + "\n"
	}
	calls := slices.DeleteFunc(logCalls(t), func(c logCall) bool { return c.addedTo })
	slices.SortStableFunc(calls, func(a, b logCall) int {
		return cmp.Or(cmp.Compare(a.file.Package, b.file.Package), cmp.Compare(a.message, b.message), cmp.Compare(a.level, b.level))
	})
	var list strings.Builder
	list.WriteString(before + logMessages + "\n| Package | Level | Message | Keys |\n|---|---|---|---|\n")
	last := ""
	for _, c := range calls {
		keys := ""
		for _, key := range c.keys {
			keys += ", `" + key + "`"
		}
		row := fmt.Sprintf("| %s | %s | %s | %s |\n", c.file.Package, c.level, strings.ReplaceAll(c.message, "|", `\|`), strings.TrimPrefix(keys, ", "))
		if row != last { // two places may say the same
			list.WriteString(row)
		}
		last = row
	}
	return list.String()
}
