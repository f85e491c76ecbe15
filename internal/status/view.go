package status

import (
	"fmt"
	"strings"
	"time"

	"freshread/internal/dbroute"
)

// clusterView is a cluster in words and lines.
type clusterView struct {
	Name    string
	Warning string
	Servers []serverView
}

type serverView struct {
	ID       int
	Role     string
	Address  string
	State    string
	Cause    string
	Lag      string // empty on the primary
	Behind   string
	Line     string // the points of a polyline, lineWidth by lineHeight
	LineTop  string // the lag at the top of the line
	Accesses []accessView
}

type accessView struct {
	Reason string
	N      uint64
}

// The line shows the last minutes.
const (
	lineSpan   = 3 * time.Minute
	lineWidth  = 360
	lineHeight = 48
)

// LineWidth and LineHeight are for the template.
func (serverView) LineWidth() int  { return lineWidth }
func (serverView) LineHeight() int { return lineHeight }

func view(cluster *dbroute.Cluster, window time.Duration, now time.Time) clusterView {
	v := clusterView{Name: cluster.Name()}
	counts, noIDs := cluster.Counts(), cluster.Config().NoCommitIDs
	worst := time.Duration(0)
	for _, s := range cluster.Status() {
		shown := serverView{
			ID: s.ID, Role: string(s.Role), Address: s.Address, State: string(s.State), Cause: s.Cause,
		}
		if s.Role == dbroute.Replica && noIDs == "" {
			shown.Lag = seconds(s.Lag)
			shown.Behind = amount(s.Behind, cluster.BehindUnit())
			shown.Line, shown.LineTop = line(s.Lags, now)
			worst = max(worst, s.WorstLag)
		}
		for _, a := range counts.Accesses {
			if a.ServerID == s.ID {
				shown.Accesses = append(shown.Accesses, accessView{string(a.Reason), a.N})
			}
		}
		v.Servers = append(v.Servers, shown)
	}
	switch {
	case noIDs != "" && cluster.Replicas() > 0:
		v.Warning = fmt.Sprintf("There are no commit IDs: %s. Reads are routed by the window of %v, and how late the replicas are is not known.", noIDs, window)
	case worst >= window:
		v.Warning = fmt.Sprintf("A replica was %s behind, and READ_WINDOW is %v. Under the strategy window, a save may be unseen.", seconds(worst), window)
	}
	return v
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

func amount(n int64, unit string) string {
	switch {
	case unit != "bytes":
		return fmt.Sprintf("%d %s", n, unit)
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// line draws the lag over time. Its top is the greatest lag, or a second if it
// was never as much, so that a healthy replica looks like one.
func line(points []dbroute.LagPoint, now time.Time) (polyline, top string) {
	highest := time.Second
	for _, p := range points {
		highest = max(highest, p.Lag)
	}
	var b strings.Builder
	for _, p := range points {
		age := now.Sub(p.At)
		if age > lineSpan {
			continue
		}
		x := lineWidth * (1 - age.Seconds()/lineSpan.Seconds())
		y := lineHeight * (1 - p.Lag.Seconds()/highest.Seconds())
		fmt.Fprintf(&b, "%.1f,%.1f ", x, y)
	}
	return strings.TrimSpace(b.String()), seconds(highest)
}
