package lab

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"freshread/internal/dbroute"
	"freshread/internal/site"
	"freshread/internal/web"
)

// On both sides of these experiments the cookies alone say how far a user's writes
// have got: the commit ID that is kept with the user would hide what gets lost.

var twoTabs = Experiment{
	Name:     "two-tabs",
	Question: "You comment in one tab and save the title in another. The answer to the first comes last. Does your browser still know of the second?",
	Subject:  title,
	Broken: Side{
		Label: "one cookie of a fixed name, which the late answer overwrites",
		Setup: func(cfg *site.Config, _ Times) { useOneCookie(cfg, oneCookie{cluster: cfg.Cluster}) },
	},
	Fixed: cookiePerMarker("a cookie for each marker: no answer overwrites another's"),
	Cure:  Cure{"internal/web/marker.go", "plan"},
	Steps: []Step{
		{Do: CommentSlowly},
		{Do: AwaitApplied},
		{Do: Hold},
		{Do: Save},
		{Do: Visit, Broken: untilApplied, Fixed: untilApplied},
		{Do: AnswerArrives},
		{Do: Visit, Broken: beforeTheSave, Fixed: untilApplied},
		{Do: AwaitApplied},
		{Do: Visit, Broken: onceApplied, Fixed: onceApplied},
	},
}

var twoReplicas = Experiment{
	Name:     "two-replicas",
	Question: "One of two replicas has applied your save, the other, which is your own, has not. You have read the new title. What does the next page show?",
	Subject:  title,
	Paused:   true,
	Needs:    Needs{Replicas: 2},
	Broken: Side{
		Label: "the marker is dropped once a replica has reached it",
		Setup: func(cfg *site.Config, _ Times) { useOneCookie(cfg, oneCookie{cluster: cfg.Cluster, dropped: true}) },
	},
	Fixed: cookiePerMarker("the marker is kept until every configured replica has reached it"),
	Cure:  Cure{"internal/dbroute/scope.go", "reachedEverywhere"},
	Steps: []Step{
		{Do: Save},
		{Do: Visit, Broken: untilApplied, Fixed: untilApplied},
		{Do: ApplyOnFirst},
		{Do: Visit, Broken: onceApplied.on(2), Fixed: onceApplied.on(2)},
		{Do: Visit, Broken: oldNothingDue.on(3), Fixed: onceApplied.on(2)},
		{Do: AwaitApplied},
		{Do: Visit, Broken: newNothingDue.on(3), Fixed: onceApplied.on(3)},
	},
}

// on is a Want that only one server can fulfil.
func (w Want) on(server int) Want {
	w.Server = server
	return w
}

func cookiePerMarker(label string) Side {
	return Side{
		Label: label,
		Setup: func(cfg *site.Config, _ Times) {
			cfg.Strategy = site.Commit
			cfg.Router = cookiesOnly{cfg.Cluster}
		},
	}
}

// cookiesOnly keeps no commit IDs with the users.
type cookiesOnly struct{ *dbroute.Cluster }

func (o cookiesOnly) Write(ctx context.Context, name string, fn func(context.Context, *dbroute.Tx) error) error {
	if scope := o.Scope(ctx); scope != nil {
		scope.OnWrite(nil)
	}
	return o.Cluster.Write(ctx, name, fn)
}

// oneCookie routes by commit ID as one does first: it keeps the commit ID in one
// cookie of a fixed name. It is not signed: one more bug.
type oneCookie struct {
	cluster *dbroute.Cluster
	dropped bool // once a replica that has reached it was read
}

const commitCookie = "last_commit"

func useOneCookie(cfg *site.Config, o oneCookie) {
	cfg.Strategy = site.None
	cfg.Router = cookiesOnly{cfg.Cluster}
	cfg.BeforeLoad = []web.Middleware{o.route()}
}

func (o oneCookie) route() web.Middleware {
	return web.Middleware{Name: "lab.oneCookie", Func: func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			ctx := c.Request().Context()
			carried, err := o.carried(c)
			if err != nil {
				return err
			}
			scope := o.cluster.Scope(ctx)
			scope.RouteByCommit(ctx, dbroute.Marker{Commit: carried})
			c.Response().Before(func() {
				if out := scope.Outcome(); out.Changed {
					o.set(c, url.QueryEscape(out.Marker.Commit.String()), 0)
				} else if o.dropped && readWhereReached(scope) {
					o.set(c, "", -1)
				}
			})
			return next(c)
		}
	}}
}

func (o oneCookie) carried(c echo.Context) (id dbroute.CommitID, err error) {
	cookie, err := c.Cookie(commitCookie)
	if err != nil {
		return id, nil // there is none
	}
	text, err := url.QueryUnescape(cookie.Value)
	if err != nil {
		return id, fmt.Errorf("cookie %s: %w", commitCookie, err)
	}
	return o.cluster.ParseCommitID(text)
}

func (o oneCookie) set(c echo.Context, value string, maxAge int) {
	c.SetCookie(&http.Cookie{Name: commitCookie, Value: value, Path: "/", MaxAge: maxAge})
}

func readWhereReached(scope *dbroute.Scope) bool {
	for _, a := range scope.Accesses() {
		if a.Reason == dbroute.CommitReached {
			return true
		}
	}
	return false
}

// slowAnswer is the answer to a comment that is on its way to the browser.
type slowAnswer struct {
	*http.Response
	o Observation
}

// commentSlowly sends a comment with the browser's cookies, and keeps the answer's to
// itself.
func (s *runningSide) commentSlowly(ctx context.Context, by Visitor, o *Observation) error {
	o.Method, o.Label, o.Value, o.Note = http.MethodPost, "comment", postComment, "the answer is on its way"
	request, err := s.form(ctx, s.post+"/comments", "body", postComment)
	if err != nil {
		return err
	}
	for _, cookie := range s.browsers[by].Jar.Cookies(request.URL) {
		request.AddCookie(cookie)
	}
	browser := newBrowser()
	response, err := browser.Do(request)
	if err != nil {
		return fmt.Errorf("comment: %w", err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusSeeOther {
		return fmt.Errorf("comment: %s", response.Status)
	}
	if err := o.writtenBy(response); err != nil {
		return err
	}
	s.slow = &slowAnswer{response, *o}
	return nil
}

func (s *runningSide) answerArrives(by Visitor, o *Observation) {
	at := o.At
	*o = s.slow.o
	o.At, o.Note = at, "the answer arrives"
	s.browsers[by].Jar.SetCookies(s.slow.Request.URL, s.slow.Cookies())
}
