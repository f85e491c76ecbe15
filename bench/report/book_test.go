package report_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"freshread/bench/report"
)

func section(name, got string, met bool) report.Section {
	return report.Section{
		Name: name, Title: "The " + name, Question: "How much?",
		Targets: []report.Target{{Want: "at most 3", Got: got, Met: met}},
		Tables:  []report.Table{{Columns: []string{"What", "Time"}, Rows: [][]string{{"a|b", "3 µs"}}}},
		Charts:  []report.Chart{{File: name + ".svg", Alt: "a chart", SVG: "<svg/>"}},
		Machine: report.Machine{CPU: "a CPU", Cores: 2, Servers: []string{"PostgreSQL 15"}},
	}
}

func put(t *testing.T, dir string, s report.Section) string {
	t.Helper()
	book, err := report.Open(dir, []string{"first", "second"})
	if err != nil {
		t.Fatal(err)
	}
	if err := book.Put(s); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

func TestOneMeasurementLeavesTheOthersAsTheyAre(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, section("second", "2", true))
	put(t, dir, section("first", "4", false))
	page := put(t, dir, section("second", "1", true))
	for _, part := range []string{
		"| [The first](#the-first) | at most 3 | 4 | no |",
		"| [The second](#the-second) | at most 3 | 1 | yes |",
		"`make bench ARGS=second` on a CPU, 2 cores",
		"![a chart](second.svg)", `| a\|b | 3 µs |`, "| --- | ---: |",
	} {
		if !strings.Contains(page, part) {
			t.Errorf("%q is not in\n%s", part, page)
		}
	}
	if strings.Contains(page, "| 2 |") {
		t.Error("the old figure is still there")
	}
	if strings.Index(page, "## The first") > strings.Index(page, "## The second") {
		t.Error("the sections are not in order")
	}
	if svg, err := os.ReadFile(filepath.Join(dir, "second.svg")); err != nil || string(svg) != "<svg/>" {
		t.Errorf("the chart is %q, %v", svg, err)
	}
}

func TestThisMachineIsNamed(t *testing.T) {
	m := report.ThisMachine()
	if m.CPU == "" || m.Cores < 1 || m.OS == "" || m.Go == "" || m.Date == "" {
		t.Errorf("got %+v", m)
	}
}
