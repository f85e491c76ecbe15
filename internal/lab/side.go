package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/PuerkitoBio/goquery"

	"freshread/internal/dbroute"
	"freshread/internal/posts"
	"freshread/internal/site"
)

// side is one side of an experiment under way: a site that serves over HTTP,
// and the browsers of its visitors.
type side struct {
	setup  func(*site.Config, Times)
	want   func(Step) Want
	result *SideResult

	server   *http.Server
	post     string // URL of the post
	body     string
	browsers map[Visitor]*http.Client
	saved    bool
}

func (s *side) open(ctx context.Context, cfg site.Config) error {
	s.body = "The autumn prices, for you to pick apart before they go out."
	id, err := posts.NewStore(cfg.Cluster).Create(ctx, posts.Draft{Title: string(OldTitle), Body: s.body})
	if err != nil {
		return err
	}
	handler, err := site.New(cfg)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	s.server = &http.Server{Handler: handler}
	go s.server.Serve(listener)
	s.post = fmt.Sprintf("http://%s/posts/%d", listener.Addr(), id)
	s.browsers = map[Visitor]*http.Client{Writer: newBrowser(), Other: newBrowser()}
	return nil
}

func newBrowser() *http.Client {
	jar, _ := cookiejar.New(nil) // fails only with options
	return &http.Client{
		Jar:           jar,
		Timeout:       30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (s *side) close() error {
	if s.server == nil {
		return nil
	}
	return s.server.Close()
}

// do visits or saves, and notes what came back.
func (s *side) do(ctx context.Context, step Step, began time.Time) error {
	o := Observation{At: time.Since(began), By: step.By}
	var err error
	if step.Do == Save {
		err = s.save(ctx, step, &o)
		s.saved = true
	} else {
		err = s.visit(ctx, step, &o)
	}
	if err != nil {
		return err
	}
	s.result.Observations = append(s.result.Observations, o)
	return nil
}

func (s *side) save(ctx context.Context, step Step, o *Observation) error {
	o.Method, o.Title = http.MethodPost, NewTitle
	form := url.Values{"title": {string(NewTitle)}, "body": {s.body}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.post, strings.NewReader(form.Encode()))
	if err != nil {
		return fmt.Errorf("save: %w", err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := s.browsers[step.By].Do(request)
	if err != nil {
		return fmt.Errorf("save: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusSeeOther {
		return fmt.Errorf("save: %s", response.Status)
	}
	if o.ServerID, err = strconv.Atoi(response.Header.Get("X-Server-Id")); err != nil {
		return fmt.Errorf("save: X-Server-Id: %w", err)
	}
	o.Role, o.Reason = dbroute.Primary, string(dbroute.Written)
	return nil
}

func (s *side) visit(ctx context.Context, step Step, o *Observation) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.post, nil)
	if err != nil {
		return fmt.Errorf("visit: %w", err)
	}
	response, err := s.browsers[step.By].Do(request)
	if err != nil {
		return fmt.Errorf("visit: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("visit: %s", response.Status)
	}
	page, err := goquery.NewDocumentFromReader(response.Body)
	if err != nil {
		return fmt.Errorf("visit: %w", err)
	}
	if err := o.read(page); err != nil {
		return fmt.Errorf("visit: %w", err)
	}
	o.Stale = step.By == Writer && s.saved && o.Title == OldTitle
	o.Problem = s.want(step).differs(*o)
	return nil
}

// read takes from a post's page what it says of itself.
func (o *Observation) read(page *goquery.Document) error {
	o.Method = http.MethodGet
	o.Title = Title(page.Find("[data-title]").Text())
	post := page.Find(`[data-read="posts.ByID"]`)
	comments := page.Find(`[data-read="posts.Comments"]`)
	if post.Length() != 1 || comments.Length() != 1 {
		return errors.New("the page does not say where the post and its comments were read")
	}
	o.Role = dbroute.Role(post.AttrOr("data-role", ""))
	o.Reason = post.AttrOr("data-reason", "")
	if role := dbroute.Role(comments.AttrOr("data-role", "")); role != o.Role {
		o.CommentsFrom = role
	}
	var err error
	if o.ServerID, err = strconv.Atoi(post.AttrOr("data-server-id", "")); err != nil {
		return fmt.Errorf("data-server-id: %w", err)
	}
	return nil
}

// differs says how an observation is not what was wanted. The primary's id is
// 1, the replicas' count from 2.
func (w Want) differs(o Observation) string {
	var wrong []string
	note := func(what string, got, want any) {
		if got != want {
			wrong = append(wrong, fmt.Sprintf("%s is %q, want %q", what, got, want))
		}
	}
	note("title", o.Title, w.Title)
	note("role", o.Role, w.Role)
	note("reason", o.Reason, string(w.Reason))
	note("comments' role", o.CommentsFrom, w.CommentsRole)
	if (o.ServerID == 1) != (w.Role == dbroute.Primary) {
		wrong = append(wrong, fmt.Sprintf("server id is %d, for the %s", o.ServerID, w.Role))
	}
	return strings.Join(wrong, "; ")
}
