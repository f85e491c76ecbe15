package lab

import (
	"fmt"
	"math"
	"slices"
	"time"

	"freshread/internal/dbroute"
)

// Timeline is a side of a result as it is drawn: time along, a lane for each server,
// an observation as a mark at its time. Across, positions are in percent of the
// drawing, so that it fills its place and text keeps its size; down, they are in
// pixels.
type Timeline struct {
	SideResult
	Name  string // "broken" or "fixed"
	Lanes []Lane
	Ticks []Tick
	Marks []Mark
	// Pending are as many as observations are still to come.
	Pending []struct{}
	Height  int
	Axis    int // where the axis is, from the top
}

// Lane is the line of a server.
type Lane struct {
	ServerID int
	Role     dbroute.Role
	Y        int
	// From and To are where the replica did not have the first write yet; empty if
	// that is not known.
	From, To string
}

// NameY is where the name of the server is.
func (l Lane) NameY() int { return l.Y - 14 }

// Tick is a time that the axis names.
type Tick struct {
	X     string
	Label string
}

// Mark is an observation in its lane.
type Mark struct {
	Observation
	X string
	Y int
}

// Kind is the shape of a mark: what is stale must not be told by colour alone.
func (m Mark) Kind() string {
	switch {
	case m.Stale:
		return "mark-stale"
	case m.Reason == string(dbroute.Written):
		return "mark-write"
	}
	return "mark-read"
}

const (
	laneHeight  = 46
	leftEdge    = 3.0  // of the axis, in percent
	rightEdge   = 97.0 // in percent
	markWidth   = 3.6  // in percent; marks that are closer are moved apart
	ticksAtMost = 7
)

// drawn draws both sides to one scale. An axis is as long as the lag and a moment,
// or as what was observed.
func (r *Result) drawn(lag time.Duration) []Timeline {
	span := lag + time.Second
	lanes := []Lane{{ServerID: 1, Role: dbroute.Primary}, {ServerID: 2, Role: dbroute.Replica}}
	for _, side := range []SideResult{r.Broken, r.Fixed} {
		for _, o := range side.Observations {
			span = max(span, o.At, r.Applied)
			if !slices.ContainsFunc(lanes, func(l Lane) bool { return l.ServerID == o.ServerID }) {
				lanes = append(lanes, Lane{ServerID: o.ServerID, Role: o.Role})
			}
		}
	}
	slices.SortFunc(lanes, func(a, b Lane) int { return a.ServerID - b.ServerID })
	for i := range lanes {
		lanes[i].Y = laneHeight*(i+1) - 10
	}
	// Whole seconds, so that the scale changes seldom while a run goes on.
	span = (span + time.Second - 1).Truncate(time.Second)
	return []Timeline{
		r.Broken.timeline("broken", lanes, span, r.Applied),
		r.Fixed.timeline("fixed", lanes, span, r.Applied),
	}
}

func (s SideResult) timeline(name string, lanes []Lane, span, applied time.Duration) Timeline {
	t := Timeline{SideResult: s, Name: name, Lanes: slices.Clone(lanes), Axis: laneHeight*len(lanes) + 12}
	t.Height = t.Axis + 26
	position := func(at time.Duration) float64 {
		return leftEdge + (rightEdge-leftEdge)*at.Seconds()/span.Seconds()
	}
	if written := s.firstWrite(); written < applied && len(lanes) == 2 {
		behind := &t.Lanes[1] // of more than one replica each has its own time
		behind.From, behind.To = percent(position(written)), percent(position(applied))
	}
	step := time.Second
	for span/step >= ticksAtMost {
		step += time.Second
	}
	for at := time.Duration(0); at <= span; at += step {
		t.Ticks = append(t.Ticks, Tick{percent(position(at)), fmt.Sprintf("%.0fs", at.Seconds())})
	}
	free := 0.0
	for _, o := range s.Observations {
		x := max(position(o.At), free)
		free = x + markWidth
		y := lanes[slices.IndexFunc(lanes, func(l Lane) bool { return l.ServerID == o.ServerID })].Y
		t.Marks = append(t.Marks, Mark{o, percent(min(x, 100-markWidth/2)), y})
	}
	return t
}

// firstWrite is when it was, or for ever away.
func (s SideResult) firstWrite() time.Duration {
	for _, o := range s.Observations {
		if o.Reason == string(dbroute.Written) {
			return o.At
		}
	}
	return math.MaxInt64
}

func percent(x float64) string { return fmt.Sprintf("%.2f%%", x) }

// StaleReads is how many observations are stale.
func (s SideResult) StaleReads() (n int) {
	for _, o := range s.Observations {
		if o.Stale {
			n++
		}
	}
	return n
}
