package lab_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"

	"freshread/internal/lab"
	"freshread/internal/stack/stacktest"
)

// A pointer to code that has moved is worse than none.
func TestCuresAreWhereTheySayTheyAre(t *testing.T) {
	for _, e := range lab.Experiments() {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", filepath.FromSlash(e.Cure.File)), nil, parser.SkipObjectResolution)
		stacktest.Must(t, err)
		found := 0
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Name.Name == e.Cure.Func {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%s: %s has %d functions %s, want 1", e.Name, e.Cure.File, found, e.Cure.Func)
		}
	}
}
