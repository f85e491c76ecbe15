package lab

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"freshread/internal/dbroute"
	"freshread/internal/site"
	"freshread/internal/web"
)

// What one tries first is to wait for the replica. Here it is measured, who waits
// and for how long.

var spinner = Experiment{
	Name:     "spinner",
	Question: "After a save the page shows a spinner, and reloads itself until the new title is there. How long do you look at it?",
	Subject:  title,
	Broken: Side{
		Label: "reloaded until the replica has the new title",
		Setup: noRouting.Broken.Setup,
	},
	Fixed: byCommitID,
	Cure:  noRouting.Cure,
	Steps: []Step{
		{Do: Save},
		{Do: ApplySoon},
		{Do: VisitUntilNew, AtOnce: true, Broken: newFromReplica.taking(Long), Fixed: untilApplied.taking(Short)},
	},
}

var pollReplica = Experiment{
	Name:     "poll-replica",
	Question: "After a save the page asks the replica again and again, until it answers what was saved. How long does the page take, and what does it cost another visitor?",
	Subject:  title,
	Broken: Side{
		Label: "polled until it matches, on the one connection to the replica",
		Setup: func(cfg *site.Config, _ Times) {
			p := poller{cfg.Cluster}
			cfg.Strategy = site.None
			cfg.Router = p
			cfg.BeforeLoad = []web.Middleware{p.expect()}
		},
		Cluster: oneConnection,
	},
	Fixed: Side{
		Label:   "routed by commit ID, with one connection to each server",
		Setup:   byCommitID.Setup,
		Cluster: oneConnection,
	},
	Cure: noRouting.Cure,
	Steps: []Step{
		{Do: Save},
		{Do: ApplySoon},
		{Do: Visit, AtOnce: true, Broken: newFromReplica.taking(Long), Fixed: untilApplied.taking(Short),
			Meanwhile: &Step{Do: Visit, By: Other, Broken: newFromReplica.taking(Long), Fixed: oldNothingDue.taking(Short)}},
	},
}

var syncReplication = Experiment{
	Name:     "sync-replication",
	Question: "Each commit waits until the replica has applied it, so that no read is stale. How long does a save take? And without the replica?",
	Subject:  title,
	Only: &Only{dbroute.PostgreSQL, "Only PostgreSQL can let each commit wait until a replica has applied it (synchronous_commit = remote_apply). " +
		"Semi-synchronous replication, which MySQL and MariaDB have, waits until a replica has received it, and reads there can be as stale as ever."},
	// Which sessions wait is up to them.
	Needs: Needs{Settings: map[string]string{"synchronous_standby_names": "*", "synchronous_commit": "local"}},
	Broken: Side{
		Label: "synchronous_commit = remote_apply, and reads go to the replica",
		Setup: func(cfg *site.Config, _ Times) {
			cfg.Strategy = site.None
			cfg.Router = cookiesOnly{cfg.Cluster} // one commit for each save, and no second one that waits as well
			cfg.Log = slog.New(slog.DiscardHandler)
		},
		Cluster: func(cfg *dbroute.Config, t Times) {
			cfg.Primary += "&synchronous_commit=remote_apply"
			cfg.CommitTimeout = t.Behind + 1500*time.Millisecond
		},
	},
	Fixed: byCommitID,
	Cure:  Cure{"internal/dbroute/write.go", "transact"},
	Steps: []Step{
		{Do: ApplySoon},
		{Do: Save, AtOnce: true, Broken: Want{Takes: Long}, Fixed: Want{Takes: Short}},
		{Do: AwaitApplied},
		{Do: Visit, Broken: newFromReplica, Fixed: onceApplied},
		{Do: Outage},
		{Do: TrySave, AtOnce: true, Broken: Want{Takes: Long, Fails: true}, Fixed: Want{Takes: Short}},
	},
}

func (w Want) taking(t Takes) Want {
	w.Takes = t
	return w
}

// oneConnection makes it plain who holds one.
func oneConnection(cfg *dbroute.Config, _ Times) { cfg.MaxOpenConns = 1 }

// poller reads a post on the replica until that has the title that the client has
// saved. It holds the connection meanwhile.
type poller struct{ *dbroute.Cluster }

const (
	expectCookie = "expected_title"
	pollPause    = 20 * time.Millisecond
)

type expectedKey struct{}

// expected is what the read of a post has to match.
type expected struct{ post, title string }

// expect keeps the title that a client saves in a cookie, and has it matched.
func (p poller) expect() web.Middleware {
	return web.Middleware{Name: "lab.expect", Func: func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if saved := c.FormValue("title"); c.Request().Method == http.MethodPost && saved != "" {
				c.SetCookie(&http.Cookie{Name: expectCookie, Value: url.QueryEscape(saved), Path: "/"})
			} else if cookie, err := c.Cookie(expectCookie); err == nil {
				saved, err := url.QueryUnescape(cookie.Value)
				if err != nil {
					return fmt.Errorf("cookie %s: %w", expectCookie, err)
				}
				ctx := context.WithValue(c.Request().Context(), expectedKey{}, expected{c.Param("id"), saved})
				c.SetRequest(c.Request().WithContext(ctx))
			}
			return next(c)
		}
	}}
}

func (p poller) Read(ctx context.Context, name string, fn func(dbroute.Querier) error) error {
	want, ok := ctx.Value(expectedKey{}).(expected)
	if !ok || !strings.HasPrefix(name, "posts.ByID") {
		return p.Cluster.Read(ctx, name, fn)
	}
	return p.Cluster.Read(ctx, name, func(q dbroute.Querier) error {
		for title := ""; title != want.title; {
			if err := q.QueryRowContext(ctx, `SELECT title FROM posts WHERE id = ?`, want.post).Scan(&title); err != nil {
				return err
			}
			if err := sleepUntil(ctx, time.Now().Add(pollPause)); err != nil {
				return err
			}
		}
		return fn(q)
	})
}
