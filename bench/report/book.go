package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

const resultsFile = "results.json"

// Book is all sections, of which each may be of another day.
type Book struct {
	dir      string
	order    []string // of the sections, by name
	sections []Section
}

// Open reads the book of a folder, which may be empty. Sections that the order does not
// name are no longer measured, and left out.
func Open(dir string, order []string) (*Book, error) {
	b := &Book{dir: dir, order: order}
	content, err := os.ReadFile(filepath.Join(dir, resultsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open report: %w", err)
	}
	if err := json.Unmarshal(content, &b.sections); err != nil {
		return nil, fmt.Errorf("open report: %s: %w", resultsFile, err)
	}
	b.sections = slices.DeleteFunc(b.sections, func(s Section) bool { return !slices.Contains(order, s.Name) })
	return b, nil
}

// Put replaces a section, and saves the book.
func (b *Book) Put(s Section) error {
	b.sections = slices.DeleteFunc(b.sections, func(old Section) bool { return old.Name == s.Name })
	b.sections = append(b.sections, s)
	slices.SortFunc(b.sections, func(x, y Section) int {
		return slices.Index(b.order, x.Name) - slices.Index(b.order, y.Name)
	})
	results, err := json.MarshalIndent(b.sections, "", "\t")
	if err != nil {
		return fmt.Errorf("save report: %w", err)
	}
	files := map[string]string{resultsFile: string(results) + "\n", "README.md": markdown(b.sections)}
	for _, c := range s.Charts {
		files[c.File] = c.SVG
	}
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return fmt.Errorf("save report: %w", err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(content), 0o644); err != nil {
			return fmt.Errorf("save report: %w", err)
		}
	}
	return nil
}
