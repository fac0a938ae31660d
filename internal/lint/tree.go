// Package lint holds the rules of the house as code: which package may import
// which, what a pure package must not touch, what every file owes its reader.
// Its test runs all of them over the whole module, so that `go test ./...`
// enforces them, and each finding names the remedy.
//
// The rules read files and parse them; nothing here runs the go command, whose
// answers the test cache would not notice changing. A new rule is a function
// from Tree to findings, an entry in Rules, and a planted case under testdata
// that proves it can fail.
package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Tree is a module read into memory: its text files, and its Go files parsed.
// Nobody changes it after Load.
type Tree struct {
	Module  string // module path of go.mod
	FileSet *token.FileSet
	Files   []*File   // all text files but Git's and built ones, by path
	Go      []*GoFile // those of Files that are Go source outside testdata, by path
	Broken  []Finding // Go files that do not parse
	fsys    fs.FS
}

// File is one text file.
type File struct {
	Path   string // from the module root, with slashes
	Source []byte
}

// GoFile is one parsed Go source file.
type GoFile struct {
	*File
	Package string // directory from the module root: "engine/disk", "." for the root
	Test    bool   // a _test.go file
	Syntax  *ast.File
}

// Finding is one breach of a rule.
type Finding struct {
	Path   string
	Line   int // 0: the file as a whole
	Rule   string
	Breach string // what is wrong
	Remedy string // what to do about it
}

// String returns the finding as one line that an editor can jump to.
func (f Finding) String() string {
	at := f.Path
	if f.Line > 0 {
		at += ":" + strconv.Itoa(f.Line)
	}
	return fmt.Sprintf("%s: %s (%s): %s", at, f.Breach, f.Rule, f.Remedy)
}

// skippedDirectories are not the project's source: Git's own, and what
// building and running leaves behind.
var skippedDirectories = []string{".git", "bin", "data"}

// binarySuffixes are files that are never read as text.
var binarySuffixes = []string{".test", ".prof", ".out", ".png", ".jpg", ".gz", ".zst"}

// Load reads the module whose go.mod is at the root of fsys.
func Load(fsys fs.FS) (*Tree, error) {
	tree := &Tree{FileSet: token.NewFileSet(), fsys: fsys}
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".git" && !entry.IsDir():
			return nil // where a linked work tree has its repository: a path of the machine
		case entry.IsDir():
			if slices.Contains(skippedDirectories, name) {
				return fs.SkipDir
			}
			return nil
		case !entry.Type().IsRegular() || slices.Contains(binarySuffixes, path.Ext(name)):
			return nil
		}
		source, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		if utf8.Valid(source) && !slices.Contains(source, 0) {
			tree.add(&File{Path: name, Source: source})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("lint: reading the module: %w", err)
	}
	if tree.Module == "" {
		return nil, fmt.Errorf("lint: no go.mod with a module line: %w", fs.ErrNotExist)
	}
	return tree, nil
}

func (t *Tree) add(file *File) {
	t.Files = append(t.Files, file)
	if file.Path == "go.mod" {
		t.Module = modulePath(string(file.Source))
	}
	if path.Ext(file.Path) != ".go" || inTestdata(file.Path) {
		return
	}
	syntax, err := parser.ParseFile(t.FileSet, file.Path, file.Source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Broken = append(t.Broken, Finding{Path: file.Path, Rule: "parse", Breach: err.Error(), Remedy: "make it compile"})
		return
	}
	t.Go = append(t.Go, &GoFile{
		File:    file,
		Package: path.Dir(file.Path),
		Test:    strings.HasSuffix(file.Path, "_test.go"),
		Syntax:  syntax,
	})
}

// file returns the text file at name, or nil.
func (t *Tree) file(name string) *File {
	for _, f := range t.Files {
		if f.Path == name {
			return f
		}
	}
	return nil
}

// line returns the line of a position in one of the tree's Go files.
func (t *Tree) line(at token.Pos) int { return t.FileSet.Position(at).Line }

// ours returns the directory of an import path of this module, and whether it
// is one.
func (t *Tree) ours(importPath string) (string, bool) {
	if importPath == t.Module {
		return ".", true
	}
	return strings.CutPrefix(importPath, t.Module+"/")
}

// packages returns the directories that hold Go files, sorted.
func (t *Tree) packages() []string {
	var directories []string
	for _, f := range t.Go {
		directories = append(directories, f.Package)
	}
	slices.Sort(directories)
	return slices.Compact(directories)
}

func modulePath(goMod string) string {
	for line := range strings.Lines(goMod) {
		if name, found := strings.CutPrefix(line, "module "); found {
			return strings.TrimSpace(name)
		}
	}
	return ""
}

func inTestdata(name string) bool {
	return slices.Contains(strings.Split(name, "/"), "testdata")
}

// importPath returns the path of an import without its quotes.
func importPath(spec *ast.ImportSpec) string {
	unquoted, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		panic("lint: the parser let through an import path that is no string: " + spec.Path.Value)
	}
	return unquoted
}

// matches says whether a package is meant by a pattern: its own name, or
// "name/..." for it and all below.
func matches(pattern, name string) bool {
	if root, tree := strings.CutSuffix(pattern, "/..."); tree {
		return name == root || strings.HasPrefix(name, root+"/")
	}
	return pattern == name
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}
