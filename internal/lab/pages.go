package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"freshread/internal/dbroute"
	"freshread/internal/web"
	"freshread/templates"
)

// PagesConfig is what the pages of the lab need.
type PagesConfig struct {
	// Engine is of the servers that a run starts for itself; empty where none can be
	// started, and nothing is run.
	Engine string
	Dir    string        // where these keep their files; empty: a temporary folder
	Lag    time.Duration // how late their replica is; see Runner
	AtOnce int           // how many runs there may be at once
	Log    *slog.Logger
	Done   <-chan struct{} // ends all runs when it is closed; never if nil
}

// Pages serves /lab. Each run has servers of its own, so that what it does to them
// disturbs no other run, and nobody who looks at the site.
type Pages struct {
	cfg         PagesConfig
	html        *web.Renderer
	experiments []shownExperiment
	runs        *runs
}

// shownExperiment is an experiment and the code of its cure.
type shownExperiment struct {
	Experiment
	Code Excerpt
}

// NewPages returns the pages. Wait must be called once the site has stopped.
func NewPages(cfg PagesConfig) (*Pages, error) {
	p := &Pages{cfg: cfg, runs: newRuns(cfg.AtOnce)}
	for _, e := range Experiments() {
		code, err := e.Cure.excerpt()
		if err != nil {
			return nil, fmt.Errorf("lab: experiment %s: %w", e.Name, err)
		}
		p.experiments = append(p.experiments, shownExperiment{e, code})
	}
	return p, nil
}

// Register adds the routes.
func (p *Pages) Register(r *web.Routes, html *web.Renderer) {
	p.html = html
	r.GET("/lab", p.list)
	r.GET("/lab/:name", p.show)
	r.POST("/lab/:name", p.run)
	r.POST("/lab/runs/:id/stop", p.stop)
}

// Wait returns once no run is under way, and the servers of all are gone.
func (p *Pages) Wait() { p.runs.wait() }

// experimentView is an experiment on a page, with what it has shown if it was run.
type experimentView struct {
	shownExperiment
	Runs   bool   // it can be run here
	NotRun string // why the engine cannot run it
	Engine string
	Lag    time.Duration
	Result *Result // or nil
	Sides  []Timeline
}

// product is how an engine is called in a sentence.
func product(engine string) string {
	switch dbroute.Engine(engine) {
	case dbroute.PostgreSQL:
		return "PostgreSQL"
	case dbroute.MySQL:
		return "MySQL"
	case dbroute.MariaDB:
		return "MariaDB"
	}
	return engine
}

// Product is the engine's name.
func (v experimentView) Product() string { return product(v.Engine) }
func (p *listPage) Product() string      { return product(p.Engine) }

// Servers are those that a run starts.
func (v experimentView) Servers() string {
	replicas, late := "a replica", "that is "+templates.InWords(v.Lag)+" late"
	if n := v.Needs.Replicas; n > 1 {
		replicas = fmt.Sprintf("%d replicas", n)
	}
	if v.Paused {
		late = "paused for as long as it takes"
	}
	return "a primary and " + replicas + " " + late
}

func (p *Pages) view(e shownExperiment, result *Result) experimentView {
	v := experimentView{shownExperiment: e, Engine: p.cfg.Engine, Lag: p.cfg.Lag, Result: result}
	if v.Engine != "" {
		v.NotRun = e.NotOn(dbroute.Engine(v.Engine))
		v.Runs = v.NotRun == ""
	}
	if result != nil {
		v.Sides = result.drawn(p.cfg.Lag)
	}
	return v
}

// viewSoFar keeps the place of what is still to come, so that nothing moves when it
// does.
func (p *Pages) viewSoFar(e shownExperiment, now Progress) experimentView {
	v := p.view(e, now.Result)
	for i := range v.Sides {
		v.Sides[i].Pending = make([]struct{}, max(0, e.observations()-len(v.Sides[i].Marks)))
	}
	return v
}

type listPage struct {
	templates.Base
	Experiments []experimentView
	Runs        bool
	Engine      string
	Lag         time.Duration
}

func (p *Pages) list(c echo.Context) error {
	page := &listPage{Runs: p.cfg.Engine != "", Engine: p.cfg.Engine, Lag: p.cfg.Lag}
	page.Title = "Lab"
	for _, e := range p.experiments {
		page.Experiments = append(page.Experiments, p.view(e, nil))
	}
	return p.html.HTML(c, http.StatusOK, "lab", page)
}

type experimentPage struct {
	templates.Base
	experimentView
}

func (p *Pages) newExperimentPage(e shownExperiment, result *Result) *experimentPage {
	page := &experimentPage{experimentView: p.view(e, result)}
	page.Title = e.Question
	return page
}

func (p *Pages) named(c echo.Context) (shownExperiment, error) {
	name := c.Param("name")
	i := slices.IndexFunc(p.experiments, func(e shownExperiment) bool { return e.Name == name })
	if i < 0 {
		return shownExperiment{}, fmt.Errorf("experiment %q: %w", name, web.ErrNotFound)
	}
	return p.experiments[i], nil
}

func (p *Pages) show(c echo.Context) error {
	e, err := p.named(c)
	if err != nil {
		return err
	}
	return p.html.HTML(c, http.StatusOK, "lab-experiment", p.newExperimentPage(e, nil))
}

// run runs an experiment for as long as its client waits, and answers with the
// finished page, or with a stream to a script that asks for one.
func (p *Pages) run(c echo.Context) error {
	e, err := p.named(c)
	if err != nil {
		return err
	}
	page := p.newExperimentPage(e, nil)
	if !page.Runs {
		return web.OnPage(errCannotRun, "lab-experiment", page)
	}
	ctx, id, end, err := p.runs.begin(c.Request().Context())
	if err != nil {
		return web.OnPage(err, "lab-experiment", page)
	}
	defer end()
	p.endWithSite(ctx, id)
	// The server's deadline for reading a request would end a long run.
	if err := http.NewResponseController(c.Response()).SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("run experiment: %w", err)
	}
	if strings.Contains(c.Request().Header.Get(echo.HeaderAccept), web.EventStream) {
		return p.stream(ctx, c, id, e)
	}
	result, err := p.runOnServers(ctx, e.Experiment, nil)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("run experiment %s: %w", e.Name, ctx.Err())
	case err != nil:
		return web.OnPage(err, "lab-experiment", page)
	}
	return p.html.HTML(c, http.StatusOK, "lab-experiment", p.newExperimentPage(e, result))
}

// endWithSite stops a run when the site stops.
func (p *Pages) endWithSite(ctx context.Context, id string) {
	go func() {
		select {
		case <-p.cfg.Done:
			p.runs.stop(id)
		case <-ctx.Done():
		}
	}()
}

// runOnServers runs an experiment on servers that are started for it and gone when it
// returns.
func (p *Pages) runOnServers(ctx context.Context, e Experiment, watch func(Progress)) (_ *Result, err error) {
	if watch != nil {
		watch(Progress{Doing: "Starting servers, " + product(p.cfg.Engine), Steps: len(e.Steps), Result: e.nothingYet()})
	}
	local, err := startFor(ctx, e, p.cfg.Engine, p.cfg.Dir, p.cfg.Log)
	if err != nil {
		return nil, fmt.Errorf("start servers: %w", err)
	}
	defer func() {
		if closeErr := local.Close(); closeErr != nil {
			p.cfg.Log.ErrorContext(ctx, "servers of an experiment not stopped", "experiment", e.Name, "error", closeErr)
		}
	}()
	runner := Runner{
		Stack: local.Stack, Cluster: local.Cluster, Cache: local.Cache, QueueURL: local.QueueURL, Log: p.cfg.Log,
		Lag: p.cfg.Lag, Pace: Pace(p.cfg.Lag), Watch: watch, own: true,
	}
	return runner.Run(ctx, e)
}

// Pace is slow enough to tell one thing from the next in a drawing, and quick enough
// for all that has to happen within the lag.
func Pace(lag time.Duration) time.Duration { return min(lag/12, time.Second/2) }

// observations is how many there will be on a side, at most.
func (e Experiment) observations() (n int) {
	for _, step := range e.Steps {
		if step.Do.observes() {
			n++
		}
		if step.Meanwhile != nil {
			n++
		}
	}
	return n
}

// stream sends what a run shows as it goes on, as server-sent events: run has the
// run's id, which stops it; doing what takes a while; state both timelines; and end a
// sentence on how it ended.
func (p *Pages) stream(ctx context.Context, c echo.Context, id string, e shownExperiment) error {
	web.BeginEvents(c)
	events := &events{c: c, last: map[string][]byte{}}
	events.send("run", []byte(id))
	result, err := p.runOnServers(ctx, e.Experiment, func(now Progress) {
		html, err := p.html.Part("lab-result", p.viewSoFar(e, now))
		if err != nil {
			events.err = err
		}
		events.send("doing", fmt.Appendf(nil, "%d %d %s", now.Done, now.Steps, now.Doing))
		events.send("state", html)
	})
	if err == nil {
		html, err := p.html.Part("lab-result", p.view(e, result))
		if err != nil {
			return err
		}
		events.send("state", html)
	}
	events.send("end", []byte(p.verdict(ctx, result, err)))
	if ctx.Err() != nil {
		return nil // whoever looked has stopped it, or is gone
	}
	return errors.Join(err, events.err)
}

// verdict says how a run ended.
func (p *Pages) verdict(ctx context.Context, result *Result, err error) string {
	switch {
	case errors.Is(context.Cause(ctx), errStopped):
		return "Stopped. Its servers are gone."
	case err != nil:
		return "It could not be run to its end. The site’s log says why."
	}
	return result.Verdict()
}

// Verdict says in a sentence what a finished run has shown.
func (r *Result) Verdict() string {
	if !r.OK() {
		return "Not as expected: the lines that differ are marked."
	}
	return "Done, and as expected: the bug shows on one side, and its cure on the other."
}

// stop ends a run. Its own request sends the rest.
func (p *Pages) stop(c echo.Context) error {
	if !p.runs.stop(c.Param("id")) {
		return fmt.Errorf("run: %w", web.ErrNotFound)
	}
	return c.NoContent(http.StatusNoContent)
}

// events is a stream that ends with its first error, and repeats nothing.
type events struct {
	c    echo.Context
	last map[string][]byte
	err  error
}

func (s *events) send(event string, data []byte) {
	if s.err != nil || bytes.Equal(s.last[event], data) {
		return
	}
	s.last[event] = data
	s.err = web.SendEvent(s.c, event, data)
}
