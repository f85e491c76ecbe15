package lab

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"strings"

	"freshread/internal"
)

// Excerpt is the code of a cure as it stands in its file.
type Excerpt struct {
	Cure
	First, Last int // its lines, the comment above it among them
	Text        string
}

func (c Cure) excerpt() (Excerpt, error) {
	source, err := fs.ReadFile(internal.Source, strings.TrimPrefix(c.File, "internal/"))
	if err != nil {
		return Excerpt{}, fmt.Errorf("code of %s: %w", c.Func, err)
	}
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, c.File, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return Excerpt{}, fmt.Errorf("code of %s: %w", c.Func, err)
	}
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Name.Name != c.Func {
			continue
		}
		from := f.Pos()
		if f.Doc != nil {
			from = f.Doc.Pos()
		}
		first, last := positions.Position(from).Line, positions.Position(f.End()).Line
		lines := bytes.Split(source, []byte("\n"))[first-1 : last]
		return Excerpt{c, first, last, string(bytes.Join(lines, []byte("\n")))}, nil
	}
	return Excerpt{}, fmt.Errorf("code of %s: %s has no such function", c.Func, c.File)
}
