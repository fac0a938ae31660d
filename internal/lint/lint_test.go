package lint

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cockroachdb/datadriven"
)

// TestHouse runs every rule over the module itself.
func TestHouse(t *testing.T) {
	tree, err := Load(os.DirFS(moduleRoot(t)))
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.Go) < 10 {
		t.Fatalf("only %d Go files were found: the rules looked at the wrong place", len(tree.Go))
	}
	for _, rule := range Rules {
		t.Run(rule.Name, func(t *testing.T) {
			for _, finding := range rule.check(tree) {
				t.Error(finding)
			}
		})
	}
}

// TestRulesCanFail plants a small module for each rule, in testdata, and
// compares what the rule says of it.
//
//	file path=engine/engine.go     adds a file to the module
//	check rule=arrows              runs a rule and prints its findings
func TestRulesCanFail(t *testing.T) {
	caught := map[string]bool{}
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		module := fstest.MapFS{"go.mod": {Data: []byte("module ringlog\n")}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var argument string
			switch d.Cmd {
			case "file":
				d.ScanArgs(t, "path", &argument)
				module[argument] = &fstest.MapFile{Data: []byte(d.Input + "\n"), Mode: fs.FileMode(0o644)}
				return ""
			case "check":
				d.ScanArgs(t, "rule", &argument)
				tree, err := Load(module)
				if err != nil {
					t.Fatal(err)
				}
				var findings strings.Builder
				for _, finding := range ruleNamed(t, argument).check(tree) {
					findings.WriteString(finding.String() + "\n")
					caught[argument] = true
				}
				return findings.String()
			}
			t.Fatalf("unknown command %q", d.Cmd)
			return ""
		})
	})
	for _, rule := range Rules {
		if !caught[rule.Name] {
			t.Errorf("no planted source makes the rule %s fail: add one under testdata", rule.Name)
		}
	}
}

// TestModuleWithoutGoMod shows that an empty look is an error, never a pass.
func TestModuleWithoutGoMod(t *testing.T) {
	if _, err := Load(fstest.MapFS{"a.go": {Data: []byte("package a\n")}}); err == nil {
		t.Fatal("a tree without go.mod was taken for a module")
	}
}

func ruleNamed(t *testing.T, name string) Rule {
	for _, rule := range Rules {
		if rule.Name == name {
			return rule
		}
	}
	t.Fatalf("there is no rule %q", name)
	return Rule{}
}

func moduleRoot(t *testing.T) string {
	directory, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; directory = filepath.Dir(directory) {
		if _, err := os.Stat(filepath.Join(directory, "go.mod")); err == nil {
			return directory
		}
		if directory == filepath.Dir(directory) {
			t.Fatal("no go.mod above the test")
		}
	}
}
