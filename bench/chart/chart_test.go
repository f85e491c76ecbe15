package chart_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"freshread/bench/chart"
)

// wellFormed fails the test unless text is XML with a title and a description.
func wellFormed(t *testing.T, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
	}
	for _, part := range []string{"<title id=", "<desc id=", "prefers-color-scheme:dark", `role="img"`} {
		if !strings.Contains(text, part) {
			t.Errorf("no %s in %s", part, text)
		}
	}
	if strings.Contains(text, "<script") || strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
		t.Errorf("bad: %s", text)
	}
}

func TestBars(t *testing.T) {
	svg := chart.Bars{
		Title: "Stale & fresh", Description: "Two <bars>", Mark: 2, MarkText: "target",
		Groups: []chart.Group{{Name: "one", Bars: []chart.Bar{{Label: "a", Value: 1, Text: "1"}, {Label: "b", Value: 2, Text: "2", Series: 9}}}},
	}.SVG()
	wellFormed(t, svg)
	if !strings.Contains(svg, "Stale &amp; fresh") || !strings.Contains(svg, "Two &lt;bars&gt;") {
		t.Error("text is not escaped")
	}
}

func TestNothingToDraw(t *testing.T) {
	wellFormed(t, chart.Bars{Title: "none", Groups: []chart.Group{{Bars: []chart.Bar{{Label: "a"}}}}}.SVG())
	wellFormed(t, chart.Lines{Title: "none", Steps: []string{"1"}, Series: []chart.Series{{Name: "a", Values: []float64{0}}}}.SVG())
}

func TestLines(t *testing.T) {
	svg := chart.Lines{
		Title: "Growth", Description: "Two lines", X: "replicas", Y: "µs", Steps: []string{"1", "8"},
		Series: []chart.Series{{Name: "flat", Values: []float64{1, 1}}, {Name: "same end", Values: []float64{3, 1}}},
	}.SVG()
	wellFormed(t, svg)
	if strings.Count(svg, "<polyline") != 2 || strings.Count(svg, "<circle") != 4 {
		t.Errorf("not two lines of two points: %s", svg)
	}
}
