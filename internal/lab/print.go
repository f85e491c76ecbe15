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
	did := "read from"
	switch o.Reason {
	case string(dbroute.Written):
		did = "written to"
	case string(dbroute.Touched):
		did = "counted on"
	}
	line := fmt.Sprintf("%+6.1fs  %-4s  %-28s  %s server %d (%s)",
		o.At.Round(100*time.Millisecond).Seconds(), o.Method, fmt.Sprintf("%s=%q", o.Label, o.Value), did, o.ServerID, o.Role)
	if did == "read from" {
		line += ", " + o.Reason
	}
	if o.Method == methodJob {
		line += fmt.Sprintf(", after a wait of %.1fs", o.Waited.Seconds())
	}
	if o.CommentsFrom != "" {
		line += fmt.Sprintf("; its comments from the %s", o.CommentsFrom)
	}
	if o.Took > 0 {
		line += ", in " + shortly(o.Took)
	}
	if o.Note != "" {
		line += "; " + o.Note
	}
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
