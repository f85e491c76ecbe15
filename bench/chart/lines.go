package chart

import (
	"fmt"
	"math"
	"strings"
)

// Lines is a chart of lines over steps that lie evenly beside each other.
type Lines struct {
	Title       string
	Description string // what it shows, in words
	X           string // what the steps are
	Y           string // what the values are, with their unit
	Steps       []string
	Series      []Series
}

// Series is one line: a value for each step.
type Series struct {
	Name   string
	Values []float64
}

const (
	linesHeight = 330
	plotLeft    = 64
	plotTop     = 56
	plotBottom  = 272
	plotRight   = 540 // the names of the lines are beside it
)

// SVG draws the chart.
func (l Lines) SVG() string {
	c := open(linesHeight, l.Title, l.Description)
	top, tick := axis(l.highest())
	y := func(value float64) float64 { return plotBottom - value/top*(plotBottom-plotTop) }
	c.text(0, 40, "small", "start", l.Y)
	for value := 0.0; value <= top*1.001; value += tick {
		c.line(plotLeft, y(value), plotRight, y(value), "grid")
		c.text(plotLeft-8, y(value)+4, "small", "end", number(value))
	}
	for i, step := range l.Steps {
		c.text(l.x(i), plotBottom+20, "small", "middle", step)
	}
	c.text((plotLeft+plotRight)/2, plotBottom+44, "small", "middle", l.X)
	for n, s := range l.Series {
		var points []string
		for i, value := range s.Values {
			points = append(points, fmt.Sprintf("%.1f,%.1f", l.x(i), y(value)))
			c.add(`<circle cx="%.1f" cy="%.1f" r="3.5" class="c%d"/>`, l.x(i), y(value), n%colours)
		}
		c.add(`<polyline points="%s" class="line s%d"/>`, strings.Join(points, " "), n%colours)
	}
	for n, at := range l.labels(y) {
		c.text(plotRight+14, at+4, fmt.Sprintf("c%d", n%colours), "start", l.Series[n].Name)
	}
	return c.close()
}

func (l Lines) x(step int) float64 {
	return plotLeft + (float64(step)+0.5)*(plotRight-plotLeft)/float64(len(l.Steps))
}

func (l Lines) highest() float64 {
	highest := 0.0
	for _, s := range l.Series {
		for _, value := range s.Values {
			highest = max(highest, value)
		}
	}
	return highest
}

// labels places the names of the lines where they end, but not upon each other.
func (l Lines) labels(y func(float64) float64) []float64 {
	const apart = 17
	places := make([]float64, len(l.Series))
	taken := []float64{}
	for n, s := range l.Series {
		at := y(s.Values[len(s.Values)-1])
		for k := 0; k < len(taken); k++ {
			if math.Abs(taken[k]-at) < apart {
				at, k = taken[k]-apart, -1
			}
		}
		places[n], taken = at, append(taken, at)
	}
	return places
}

// axis returns a round number that is not below the highest value, and the step between
// the lines of the grid.
func axis(highest float64) (top, tick float64) {
	if highest <= 0 {
		return 1, 0.5
	}
	magnitude := math.Pow(10, math.Floor(math.Log10(highest)))
	for _, step := range []float64{0.2, 0.25, 0.5, 1, 2} {
		if tick = step * magnitude; highest <= 5*tick {
			break
		}
	}
	return math.Ceil(highest/tick) * tick, tick
}

func number(value float64) string {
	if value == math.Trunc(value) {
		return fmt.Sprintf("%.0f", value)
	}
	return strings.TrimRight(fmt.Sprintf("%.3f", value), "0")
}
