// Package report turns what was measured into docs/bench: a README with a section for
// each measurement, its charts, and the figures as JSON.
package report

// Section is one measurement.
type Section struct {
	Name     string // as given to make bench ARGS=
	Title    string
	Question string // what is asked, and how it is measured
	Targets  []Target
	Tables   []Table
	Charts   []Chart
	Notes    []string
	Machine  Machine
}

// Target is what was aimed for, and what came out.
type Target struct {
	Want string
	Got  string
	Met  bool
}

// Table is a table of text.
type Table struct {
	Title   string
	Columns []string
	Rows    [][]string
}

// Chart is an SVG file.
type Chart struct {
	File string // its name in docs/bench
	Alt  string // what it shows, for those who do not see it
	SVG  string `json:"-"`
}
