package lab

import (
	"fmt"
	"io"
	"time"

	"freshread/internal/dbroute"
)

// Print writes a result as a transcript.
func (r *Result) Print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s: %s\n", r.Name, r.Question)
	if err == nil && r.NotRun != "" {
		_, err = fmt.Fprintf(w, "\n  not run: %s\n", r.NotRun)
		return err
	}
	for _, s := range []struct {
		name string
		side SideResult
	}{{"broken", r.Broken}, {"fixed", r.Fixed}} {
		if err == nil {
			_, err = fmt.Fprintf(w, "\n  %s: %s\n\n", s.name, s.side.Label)
		}
		for _, o := range s.side.Observations {
			if err == nil {
				_, err = fmt.Fprintf(w, "    %s\n", o)
			}
		}
	}
	return err
}

// shortly is a duration to two or three figures.
func shortly(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1fs", d.Seconds())
}

// String is one line of a transcript.
func (o Observation) String() string {
	line := fmt.Sprintf("%7s  %-4s  %-28s  %s", o.Time(), o.Method, o.What(), o.Where())
	if o.By != Writer {
		line += fmt.Sprintf("  [%s]", o.By)
	}
	if o.Stale {
		line += "  <- STALE"
	}
	if o.Problem != "" {
		line += "\n             NOT AS EXPECTED: " + o.Problem
	}
	return line
}

// Time is when it was observed, as in +1.2s.
func (o Observation) Time() string {
	return fmt.Sprintf("%+.1fs", o.At.Round(100*time.Millisecond).Seconds())
}

// What is what was saved or shown, as in title="Q3 pricing".
func (o Observation) What() string { return fmt.Sprintf("%s=%q", o.Label, o.Value) }

// Where is which server it was, and why that one.
func (o Observation) Where() string {
	did := "read from"
	switch o.Reason {
	case string(dbroute.Written):
		did = "written to"
	case string(dbroute.Touched):
		did = "counted on"
	}
	where := fmt.Sprintf("%s server %d (%s)", did, o.ServerID, o.Role)
	if did == "read from" {
		where += ", " + o.Reason
	}
	if o.Method == methodJob {
		where += fmt.Sprintf(", after a wait of %.1fs", o.Waited.Seconds())
	}
	if o.CommentsFrom != "" {
		where += fmt.Sprintf("; its comments from the %s", o.CommentsFrom)
	}
	if o.Took > 0 {
		where += ", in " + shortly(o.Took)
	}
	if o.Note != "" {
		where += "; " + o.Note
	}
	return where
}
