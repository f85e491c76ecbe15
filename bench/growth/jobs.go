package growth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"freshread/bench/chart"
	"freshread/bench/measure"
	"freshread/bench/report"
	"freshread/bench/servers"
	"freshread/bench/trial"
	"freshread/bench/wire"
	"freshread/internal/dbroute"
)

// waiting is what it costs that so many wait for a replica.
type waiting struct {
	asked float64       // round trips to the replica each second
	cpu   float64       // of this process, in milliseconds each second
	told  time.Duration // from when the replica applies again until the last knows
}

func jobs(ctx context.Context, o measure.Options, s *report.Section) (err error) {
	steps := measure.Either(o, []int{1, 10, 100, 1_000, 10_000}, []int{1, 1_000})
	on, err := servers.Start(ctx, o, "postgres", 1, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, on.Close()) }()
	l, err := newLine(ctx, on)
	if err != nil {
		return err
	}
	var found []waiting
	for _, n := range steps {
		o.Log.Info("waiting", "jobs", n)
		w, err := l.median(ctx, n, measure.Either(o, 5, 1), measure.Either(o, time.Second, 200*time.Millisecond))
		if err != nil {
			return fmt.Errorf("%d waiting: %w", n, err)
		}
		found = append(found, w)
	}
	drawJobs(s, steps, found)
	s.Machine.Servers = []string{on.Name()}
	return nil
}

func drawJobs(s *report.Section, steps []int, found []waiting) {
	table := report.Table{Title: "By jobs that wait for a replica", Columns: []string{
		"Jobs", "Round trips to the replica, a second", "CPU, ms a second", "Until the last knows",
	}}
	lines := chart.Lines{
		Title: "Jobs that wait for one replica", X: "jobs that wait", Y: "round trips to the replica, and milliseconds of CPU, in each second",
		Series: []chart.Series{{Name: "round trips"}, {Name: "CPU"}},
	}
	lines.Description = "In each second:"
	for i, w := range found {
		step := thousands(steps[i])
		table.Rows = append(table.Rows, []string{step, fmt.Sprintf("%.0f", w.asked), fmt.Sprintf("%.0f", w.cpu), w.told.Round(time.Millisecond).String()})
		lines.Steps = append(lines.Steps, step)
		lines.Series[0].Values = append(lines.Series[0].Values, w.asked)
		lines.Series[1].Values = append(lines.Series[1].Values, w.cpu)
		lines.Description += fmt.Sprintf(" %s jobs %.0f round trips and %.0f ms of CPU,", step, w.asked, w.cpu)
	}
	s.Tables = append(s.Tables, table)
	s.Charts = append(s.Charts, report.Chart{File: "growth-jobs.svg", Alt: lines.Description, SVG: lines.SVG()})
	first, last := found[0], found[len(found)-1]
	s.Targets = append(s.Targets, report.Target{
		Want: fmt.Sprintf("%s jobs that wait ask the replica as often as one", thousands(steps[len(steps)-1])),
		Got:  fmt.Sprintf("%.0f times a second; one asks %.0f times", last.asked, first.asked), Met: last.asked <= flat*first.asked,
	})
	s.Notes = append(s.Notes, "**What grows with jobs that wait:** each asks once when it begins, and what the replica has applied is compared to what each waits for, 20 times a second.")
}

// line is where jobs wait.
type line struct {
	servers *servers.Servers
	cluster *dbroute.Cluster
	replica *wire.Proxy
}

func newLine(ctx context.Context, s *servers.Servers) (*line, error) {
	if err := s.Exec(ctx, `CREATE TABLE counters (id bigint PRIMARY KEY, value bigint NOT NULL)`, `INSERT INTO counters VALUES (1, 0)`); err != nil {
		return nil, err
	}
	cfg, proxies, err := wire.Through(s.Config())
	s.OnClose(proxies.Close)
	if err != nil {
		return nil, err
	}
	cfg.CheckTimeout = time.Minute // ten thousand ask at once, one each
	cluster, err := s.Open(ctx, cfg)
	return &line{s, cluster, proxies[1]}, err
}

// median repeats a measurement.
func (l *line) median(ctx context.Context, n, times int, during time.Duration) (waiting, error) {
	var asked, cpu []float64
	var told []time.Duration
	for range times {
		w, err := l.measure(ctx, n, during)
		if err != nil {
			return waiting{}, err
		}
		asked, cpu, told = append(asked, w.asked), append(cpu, w.cpu), append(told, w.told)
	}
	return waiting{trial.Quantile(asked, 0.5), trial.Quantile(cpu, 0.5), trial.Quantile(told, 0.5)}, nil
}

// measure lets n wait while the replica is paused, and then go.
func (l *line) measure(ctx context.Context, n int, during time.Duration) (w waiting, err error) {
	replica := l.servers.Replicas()[0]
	if err := replica.PauseApply(ctx); err != nil {
		return waiting{}, err
	}
	defer func() { err = errors.Join(err, replica.ResumeApply(context.WithoutCancel(ctx))) }()
	commits, err := l.commits(ctx, min(n, 100))
	if err != nil {
		return waiting{}, err
	}
	before := l.notReached()
	jobs, jobsCtx := errgroup.WithContext(ctx)
	for i := range n {
		jobs.Go(func() error { return l.wait(jobsCtx, commits[i%len(commits)]) })
	}
	for l.notReached() < before+uint64(n) && jobsCtx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(during / 2) // until the questions are as far apart as they get
	asked, cpu, start := l.replica.RoundTrips(), trial.CPUTime(), time.Now()
	time.Sleep(during)
	seconds := time.Since(start).Seconds()
	w.asked = float64(l.replica.RoundTrips()-asked) / seconds
	w.cpu = float64((trial.CPUTime() - cpu).Milliseconds()) / seconds
	if err := replica.ResumeApply(ctx); err != nil {
		return waiting{}, err
	}
	start = time.Now()
	err = jobs.Wait()
	w.told = time.Since(start)
	return w, err
}

// commits makes commits that the replica does not get to.
func (l *line) commits(ctx context.Context, n int) ([]dbroute.CommitID, error) {
	ids := make([]dbroute.CommitID, n)
	for i := range ids {
		ctx, scope := l.cluster.NewScope(ctx)
		err := l.cluster.Write(ctx, "write", func(ctx context.Context, tx *dbroute.Tx) error {
			_, err := tx.ExecContext(ctx, `UPDATE counters SET value = value + 1 WHERE id = 1`)
			return err
		})
		if err != nil {
			return nil, err
		}
		ids[i] = scope.Outcome().Marker.Commit
	}
	return ids, nil
}

// wait is one job.
func (l *line) wait(ctx context.Context, id dbroute.CommitID) error {
	ctx, scope := l.cluster.NewScope(ctx)
	scope.RouteAnywhere(dbroute.Marker{})
	reached, err := l.cluster.HasCommitID(ctx, id, 2*time.Minute)
	if err == nil && !reached {
		err = errors.New("the replica has not reached a commit in two minutes")
	}
	return err
}

// notReached is how often the replica has said that it has not reached a commit.
func (l *line) notReached() uint64 { return l.cluster.Counts().Checks["not reached"] }
