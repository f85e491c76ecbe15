package report

import (
	"fmt"
	"strings"
)

const intro = `# The numbers

What routing costs, and what it saves. ` + "`make bench`" + ` measures all of it, on real servers unless a section says
otherwise, and writes this page, its charts, and the figures as ` + "`results.json`" + `. ` + "`make bench ARGS=routing`" + `
measures one section alone. [Hot spots](hot-spots.md) tells what profiles have led to.

Things that are compared take turns, many times over, and each figure is a median. A ratio is the median of each round's
ratio, which may differ a little from the ratio of the two medians that stand beside it. Times are of one machine; the
ratios are what carries over.

Some words: a *marker* is what a client carries from request to request, the *commit ID* of its last write. A replica has
*reached* the marker when it has applied that commit; until then the marker is *pending*. The *scope* is the routing state of
one request. The *guard* is the one question to the primary whether a session is still valid.
`

// markdown renders all sections as one page.
func markdown(sections []Section) string {
	var b strings.Builder
	b.WriteString(intro)
	summary := Table{Columns: []string{"Measured", "Target", "Figure", "Met"}}
	for _, s := range sections {
		for i, t := range s.Targets {
			link := ""
			if i == 0 {
				link = fmt.Sprintf("[%s](#%s)", s.Title, anchor(s.Title))
			}
			summary.Rows = append(summary.Rows, []string{link, t.Want, t.Got, yes(t.Met)})
		}
	}
	summary.write(&b)
	for _, s := range sections {
		s.write(&b)
	}
	return b.String()
}

func (s *Section) write(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n", s.Title, s.Question)
	if len(s.Targets) > 0 {
		b.WriteByte('\n')
	}
	for _, t := range s.Targets {
		fmt.Fprintf(b, "- **Target:** %s. **Measured:** %s. **Met:** %s.\n", t.Want, t.Got, yes(t.Met))
	}
	for _, c := range s.Charts {
		fmt.Fprintf(b, "\n![%s](%s)\n", c.Alt, c.File)
	}
	for _, t := range s.Tables {
		t.write(b)
	}
	for _, note := range s.Notes {
		fmt.Fprintf(b, "\n%s\n", note)
	}
	fmt.Fprintf(b, "\n`make bench ARGS=%s` on %s.\n", s.Name, s.Machine)
}

func (t *Table) write(b *strings.Builder) {
	if t.Title != "" {
		fmt.Fprintf(b, "\n**%s**\n", t.Title)
	}
	b.WriteByte('\n')
	line(b, t.Columns)
	rule := make([]string, len(t.Columns))
	for i := range rule {
		rule[i] = "---"
		if t.isNumeric(i) {
			rule[i] = "---:"
		}
	}
	line(b, rule)
	for _, row := range t.Rows {
		line(b, row)
	}
}

// isNumeric reports whether all cells of a column begin as numbers do.
func (t *Table) isNumeric(column int) bool {
	for _, row := range t.Rows {
		if cell := row[column]; cell == "" || !strings.ContainsRune("0123456789-+–", []rune(cell)[0]) {
			return false
		}
	}
	return len(t.Rows) > 0
}

func line(b *strings.Builder, cells []string) {
	for _, cell := range cells {
		b.WriteString("| " + strings.ReplaceAll(cell, "|", `\|`) + " ")
	}
	b.WriteString("|\n")
}

func yes(met bool) string {
	if met {
		return "yes"
	}
	return "no"
}

// anchor is what GitHub makes of a heading.
func anchor(title string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(title) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-', 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			b.WriteRune(r)
		}
	}
	return b.String()
}
