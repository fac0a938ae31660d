package lint

import (
	"go/ast"
	"go/types"
	"path"
)

// typeReader tells the types of expressions as far as our own sources tell
// them. Packages of others are taken as empty, so that nothing outside the
// module has to be read: an expression whose type comes from there has no type
// here. It checks each package once, when it is first asked about.
type typeReader struct {
	tree     *Tree
	packages map[string]*types.Package // by import path
	checked  map[string]*types.Info    // by directory
}

func newTypeReader(tree *Tree) *typeReader {
	return &typeReader{tree: tree, packages: map[string]*types.Package{}, checked: map[string]*types.Info{}}
}

// isMap says whether an expression of a file is known to be a map.
func (r *typeReader) isMap(f *GoFile, expression ast.Expr) bool {
	if r.checked[f.Package] == nil {
		r.check(f.Package)
	}
	value, known := r.checked[f.Package].Types[expression]
	if !known || value.Type == nil {
		return false
	}
	_, isMap := value.Type.Underlying().(*types.Map)
	return isMap || isMapLike(value.Type)
}

// isMapLike says whether a type is a type parameter that stands for maps.
func isMapLike(t types.Type) bool {
	parameter, ok := t.(*types.TypeParam)
	if !ok {
		return false
	}
	constraint, ok := parameter.Constraint().Underlying().(*types.Interface)
	if !ok {
		return false
	}
	for embedded := range constraint.EmbeddedTypes() {
		union, ok := embedded.(*types.Union)
		if !ok {
			continue
		}
		for term := range union.Terms() {
			if _, isMap := term.Type().Underlying().(*types.Map); isMap {
				return true
			}
		}
	}
	return false
}

// Import implements types.Importer.
func (r *typeReader) Import(importPath string) (*types.Package, error) {
	if known := r.packages[importPath]; known != nil {
		return known, nil
	}
	if directory, ours := r.tree.ours(importPath); ours {
		return r.check(directory), nil
	}
	stranger := types.NewPackage(importPath, path.Base(importPath))
	stranger.MarkComplete()
	r.packages[importPath] = stranger
	return stranger, nil
}

// check reads the types of a package without its tests. What cannot be known
// is left out: that is what the ignored errors are.
func (r *typeReader) check(directory string) *types.Package {
	var files []*ast.File
	for _, f := range r.tree.Go {
		if f.Package == directory && !f.Test {
			files = append(files, f.Syntax)
		}
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	r.checked[directory] = info
	importPath := path.Join(r.tree.Module, directory)
	checked := types.NewPackage(importPath, "")
	r.packages[importPath] = checked // before it is read, so that a cycle of imports ends
	config := &types.Config{Importer: r, Error: func(error) {}}
	_ = types.NewChecker(config, r.tree.FileSet, checked, info).Files(files)
	return checked
}
