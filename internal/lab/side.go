package lab

import (
	"context"
	"crypto/rand"
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
	"freshread/internal/jobs"
	"freshread/internal/site"
)

// runningSide is one side of an experiment under way: a site that serves over HTTP,
// and the browsers of its visitors.
type runningSide struct {
	subject Subject
	side    Side
	want    func(Step) Want
	result  *SideResult

	cluster  *dbroute.Cluster // its own, or nil
	queue    *jobs.Queue      // or nil
	stopJobs func() error
	jobsRun  int            // how many runs of jobs have been looked at
	servers  []*http.Server // each as a process of its own would be
	origin   string
	origins  []string // of all
	guessed  string   // the account whose password is guessed
	guesses  int
	post     string // path of the post
	author   string // path of the author's posts
	comment  string // path of the comment
	browsers map[Visitor]*http.Client
	saw      map[Visitor]bool // who has saved or seen the new value

	email, password string // of the writer
	client          *http.Client
	programs        map[Visitor]*program
	slow            *slowAnswer
}

const (
	postBody    = "The autumn prices, for you to pick apart before they go out."
	postComment = "Looks right to me."
)

// prepare signs the users up and writes the post, on a site without faults. Of
// the cookies only the sessions are kept, since the experiment begins with the
// replica up to date and nothing pending.
func (s *runningSide) prepare(ctx context.Context, cfg site.Config) error {
	cfg.Strategy = site.Commit
	if err := s.open(cfg); err != nil {
		return err
	}
	defer s.close()
	for by, called := range map[Visitor]string{Writer: name.Old, Commenter: "Tobias"} {
		email, password := strings.ToLower(rand.Text())+"@lab.example", rand.Text()
		if _, err := s.submit(ctx, by, "/signup", "name", called, "email", email, "password", password); err != nil {
			return err
		}
		if by == Writer {
			s.email, s.password = email, password
		}
	}
	token, _, err := s.makeToken(ctx)
	if err != nil {
		return err
	}
	s.programs = map[Visitor]*program{
		Client: {token: token}, Agent: {token: token, consistency: s.side.Consistency}, Service: {},
	}
	response, err := s.submit(ctx, Writer, "/posts", "title", title.Old, "body", postBody)
	if err != nil {
		return err
	}
	s.post = response.Header.Get("Location")
	page, err := s.get(ctx, Writer, s.post)
	if err != nil {
		return err
	}
	s.author = page.Find(".byline a").AttrOr("href", "")
	if s.subject == recount {
		return s.addComment(ctx, Writer, &Observation{})
	}
	return nil
}

// open serves a site. Users keep the sessions that they have.
func (s *runningSide) open(cfg site.Config) error {
	s.servers, s.origins = nil, nil
	for range 2 {
		handler, err := site.New(cfg)
		if err != nil {
			return err
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		server := &http.Server{Handler: handler}
		go server.Serve(listener)
		s.servers, s.origins = append(s.servers, server), append(s.origins, "http://"+listener.Addr().String())
	}
	s.origin = s.origins[0]
	s.client = &http.Client{Timeout: 30 * time.Second}
	before := s.browsers
	s.browsers = map[Visitor]*http.Client{Writer: newBrowser(), Commenter: newBrowser(), Other: newBrowser()}
	s.saw = map[Visitor]bool{}
	u, err := url.Parse(s.origin)
	if err != nil {
		return fmt.Errorf("parse origin: %w", err)
	}
	for _, browser := range s.browsers {
		// Of two replicas everybody's own is the second; see ApplyOnFirst.
		browser.Jar.SetCookies(u, []*http.Cookie{{Name: "replica." + cfg.Cluster.Name(), Value: "1", Path: "/"}})
	}
	if before == nil {
		return nil
	}
	for by, browser := range before {
		for _, c := range browser.Jar.Cookies(u) {
			if strings.HasPrefix(c.Name, "session.") {
				s.browsers[by].Jar.SetCookies(u, []*http.Cookie{c})
			}
		}
	}
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

func (s *runningSide) close() error {
	var err error
	for _, server := range s.servers {
		err = errors.Join(err, server.Close())
	}
	if s.queue != nil {
		err = errors.Join(err, s.stopJobs())
	}
	if s.cluster != nil {
		err = errors.Join(err, s.cluster.Close())
	}
	return err
}

// do visits, saves or awaits a job, and notes what came back.
func (s *runningSide) do(ctx context.Context, step Step, began time.Time) error {
	o := Observation{At: time.Since(began), By: step.By}
	p, isProgram := s.programs[step.By]
	if step.Do == ActIfInDoubt && !p.doubts {
		return nil
	}
	var err error
	switch {
	case step.Do == Save && isProgram:
		err = s.saveByProgram(ctx, step.By, &o)
	case step.Do == Save:
		err = s.save(ctx, &o)
	case step.Do == Comment:
		err = s.addComment(ctx, step.By, &o)
	case step.Do == CommentSlowly:
		err = s.commentSlowly(ctx, step.By, &o)
	case step.Do == AnswerArrives:
		s.answerArrives(step.By, &o)
	case step.Do == Uncomment:
		o.Label, o.Value = "comment", "deleted"
		err = s.write(ctx, step.By, s.comment+"/delete", nil, &o)
	case step.Do == Job:
		err = s.awaitJob(ctx, step, began, &o)
	case step.Do == Guess:
		err = s.guess(ctx, step, &o)
	case step.Do == MakeToken:
		err = s.newToken(ctx, step.By, &o, s.makeToken)
	case step.Do == SignUp:
		err = s.newToken(ctx, step.By, &o, s.signUp)
	case step.Do == Act, step.Do == ActIfInDoubt:
		err = s.act(ctx, step.By, &o)
	case step.Do == Count:
		err = s.count(ctx, step.By, &o)
	case isProgram:
		err = s.visitByProgram(ctx, step, &o)
	default:
		err = s.visit(ctx, step, &o)
	}
	if err != nil {
		return err
	}
	s.result.Observations = append(s.result.Observations, o)
	return nil
}

func (s *runningSide) save(ctx context.Context, o *Observation) error {
	saved, path, fields := title, s.post, []string{"title", title.New, "body", postBody}
	if s.subject == name {
		saved, path, fields = name, "/profile", []string{"name", name.New}
	}
	s.saw[Writer] = s.subject == saved
	o.Label, o.Value = saved.Label, saved.New
	return s.write(ctx, Writer, path, fields, o)
}

func (s *runningSide) addComment(ctx context.Context, by Visitor, o *Observation) error {
	s.saw[by] = s.saw[by] || s.subject == tally
	o.Label, o.Value = "comment", postComment
	return s.write(ctx, by, s.post+"/comments", []string{"body", o.Value}, o)
}

// write sends a form and notes which server took it.
func (s *runningSide) write(ctx context.Context, by Visitor, path string, fields []string, o *Observation) error {
	o.Method = http.MethodPost
	response, err := s.submit(ctx, by, path, fields...)
	if err != nil {
		return err
	}
	if post, id, ok := strings.Cut(response.Header.Get("Location"), "#comment-"); ok {
		s.comment = post + "/comments/" + id
	}
	return o.writtenBy(response)
}

// writtenBy takes from a response which server took the write, which is the last
// that the request did. What the cluster of the cache did is in a header of its own.
func (o *Observation) writtenBy(response *http.Response) error {
	timings := strings.Split(response.Header.Get("Server-Timing"), `desc="`)
	if _, err := fmt.Sscanf(timings[len(timings)-1], "server %d, %s write", &o.ServerID, &o.Role); err != nil {
		return fmt.Errorf("%s %s: Server-Timing: %w", o.Method, response.Request.URL.Path, err)
	}
	o.Role, o.Reason = dbroute.Role(strings.TrimSuffix(string(o.Role), ",")), string(dbroute.Written)
	return nil
}

func (s *runningSide) form(ctx context.Context, path string, fields ...string) (*http.Request, error) {
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.origin+path, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, fmt.Errorf("send %s: %w", path, err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return request, nil
}

// submit sends a user's form and expects it to be saved.
func (s *runningSide) submit(ctx context.Context, by Visitor, path string, fields ...string) (*http.Response, error) {
	request, err := s.form(ctx, path, fields...)
	if err != nil {
		return nil, err
	}
	response, err := s.browsers[by].Do(request)
	if err != nil {
		return nil, fmt.Errorf("send %s: %w", path, err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusSeeOther {
		return nil, fmt.Errorf("send %s: %s", path, response.Status)
	}
	return response, nil
}

func (s *runningSide) visit(ctx context.Context, step Step, o *Observation) error {
	if err := s.look(ctx, step.By, o); err != nil {
		return err
	}
	s.judge(step, o)
	return nil
}

func (s *runningSide) look(ctx context.Context, by Visitor, o *Observation) error {
	path, read := s.post, o.read
	if s.subject.Cached {
		path, read = s.author, o.readCached
	}
	page, err := s.get(ctx, by, path)
	if err != nil {
		return err
	}
	if err := read(page, s.subject); err != nil {
		return fmt.Errorf("visit: %w", err)
	}
	return nil
}

// judge says whether a visit showed what it must, and whether that was stale.
func (s *runningSide) judge(step Step, o *Observation) {
	o.Stale = s.saw[step.By] && o.Value == s.subject.Old
	s.saw[step.By] = s.saw[step.By] || o.Value == s.subject.New
	o.Problem = s.want(step).differs(*o, s.subject)
}

// get opens a page.
func (s *runningSide) get(ctx context.Context, by Visitor, path string) (*goquery.Document, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.origin+path, nil)
	if err != nil {
		return nil, fmt.Errorf("visit: %w", err)
	}
	response, err := s.browsers[by].Do(request)
	if err != nil {
		return nil, fmt.Errorf("visit: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("visit: %s", response.Status)
	}
	page, err := goquery.NewDocumentFromReader(response.Body)
	if err != nil {
		return nil, fmt.Errorf("visit: %w", err)
	}
	return page, nil
}

// read takes from a post's page what it says of itself.
func (o *Observation) read(page *goquery.Document, subject Subject) error {
	o.Method, o.Label = http.MethodGet, subject.Label
	o.Value = page.Find(subject.Selector).Text()
	read := page.Find(fmt.Sprintf("[data-read=%q]", subject.Read))
	comments := page.Find(`[data-read="posts.Comments"]`)
	if read.Length() != 1 || comments.Length() != 1 {
		return fmt.Errorf("the page does not say where the %s and the comments were read", subject.Label)
	}
	if err := o.readServer(read); err != nil {
		return err
	}
	if role := dbroute.Role(comments.AttrOr("data-role", "")); role != o.Role {
		o.CommentsFrom = role
	}
	return nil
}

// readServer takes from a line of the reads bar who answered, and why.
func (o *Observation) readServer(line *goquery.Selection) (err error) {
	o.Role = dbroute.Role(line.AttrOr("data-role", ""))
	o.Reason = line.AttrOr("data-reason", "")
	if o.ServerID, err = strconv.Atoi(line.AttrOr("data-server-id", "")); err != nil {
		return fmt.Errorf("data-server-id: %w", err)
	}
	return nil
}

// differs says how an observation is not what was wanted. The primary's id is
// 1, the replicas' count from 2.
func (w Want) differs(o Observation, subject Subject) string {
	if w == (Want{}) {
		return ""
	}
	var wrong []string
	note := func(what string, got, want any) {
		if got != want {
			wrong = append(wrong, fmt.Sprintf("%s is %q, want %q", what, got, want))
		}
	}
	value := subject.Old
	if w.Shows == New {
		value = subject.New
	}
	note(subject.Label, o.Value, value)
	note("role", o.Role, w.Role)
	note("reason", o.Reason, string(w.Reason))
	note("comments' role", o.CommentsFrom, w.CommentsRole)
	if (o.ServerID == 1) != (w.Role == dbroute.Primary) {
		wrong = append(wrong, fmt.Sprintf("server id is %d, for the %s", o.ServerID, w.Role))
	}
	if w.Server != 0 && o.ServerID != w.Server {
		wrong = append(wrong, fmt.Sprintf("server id is %d, want %d", o.ServerID, w.Server))
	}
	return strings.Join(wrong, "; ")
}
