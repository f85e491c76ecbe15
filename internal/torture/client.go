package torture

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"freshread/internal/dbroute"
)

// client is a session at work.
type client struct {
	world  *world
	is     Session
	person *person // nil if it is nobody's
	place  int     // of several that it comes from
	http   http.Client

	last  *Op // the latest that was kept
	step  step
	n     int
	final bool
	idle  bool

	login    Object // that the browser believes to have
	logins   int
	bearer   string // the program's token
	token    Object
	commitID string // the last that the program got
	given    *handed
	comments []comment
}

// commitIDs is what the program sends along: its own, and the one that it was handed.
func (c *client) commitIDs() string {
	if c.given == nil {
		return c.commitID
	}
	if c.commitID == "" {
		return c.given.commitID
	}
	return c.commitID + ", " + c.given.commitID
}

// comment is one that the session has made.
type comment struct{ post, id int64 }

func (w *world) newClient(s Session, p *person) *client {
	c := &client{world: w, is: s, person: p, http: http.Client{
		Transport:     w.site,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if s.Kind == browser || s.Kind == visitor {
		c.http.Jar, _ = cookiejar.New(nil) // it has no options that can be wrong
	}
	return c
}

var siteURL = &url.URL{Scheme: "http", Host: siteHost, Path: "/"}

// answer is a response that has been read.
type answer struct {
	op     *Op
	status int
	header http.Header
	body   []byte
}

// patience is longer than any answer may take, so that one that takes longer is seen.
const patience = longestBound + 15*time.Second

// address is where a session comes from, by what the balancer says.
func (c *client) address() string {
	return fmt.Sprintf("10.%d.%d.%d", c.place, c.is.ID>>8&255, c.is.ID&255)
}

// send sends a request and begins the record of it. What it means is for the caller
// to say before it calls done.
func (c *client) send(method, path, contentType, body string, headers ...string) *answer {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cut := c.step.cutAfter > 0 && !c.final
	if cut {
		timer := time.AfterFunc(c.step.cutAfter, cancel)
		defer timer.Stop()
	}
	o := &Op{Session: c.is, N: c.n, Action: method + " " + path, Final: c.final, Idle: c.idle, Start: c.world.now()}
	a := &answer{op: o}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+siteHost+path, strings.NewReader(body))
	if err != nil {
		panic(err) // the paths are ours
	}
	if body != "" {
		request.Header.Set("Content-Type", contentType)
	}
	request.Header.Set("X-Forwarded-For", c.address())
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := c.http.Do(request)
	if err == nil {
		a.header = response.Header
		a.body, err = io.ReadAll(response.Body)
		response.Body.Close()
		o.Process, _ = strconv.Atoi(response.Header.Get(processHeader))
	}
	o.End = c.world.now()
	if err != nil {
		o.Result, o.Problem, o.Cut = Unknown, err.Error(), cut && errors.Is(err, context.Canceled)
		return a
	}
	a.status, o.Status = response.StatusCode, response.StatusCode
	o.Request = response.Header.Get("X-Request-Id")
	o.Servers = serversOf(response.Header)
	o.Result = a.result()
	if a.status >= 400 {
		o.Problem = a.problem()
	}
	return a
}

// result says whether a request was done.
func (a *answer) result() Result {
	switch {
	case a.status < 400:
		return OK
	case a.status < 500:
		return Refused
	case a.status == http.StatusServiceUnavailable && strings.Contains(string(a.body), "The primary cannot be reached"):
		return Refused // it says that nothing was written
	}
	return Unknown
}

var problemTitle = regexp.MustCompile(`<strong>([^<]*)</strong>([^<]*)|<h1[^>]*>([^<]*)</h1>`)

// problem is what the answer says of itself.
func (a *answer) problem() string {
	var document struct{ Title, Detail string }
	if json.Unmarshal(a.body, &document) == nil && document.Title != "" {
		return document.Title + ": " + document.Detail
	}
	return strings.Join(strings.Fields(string(problemTitle.Find(a.body))), " ")
}

// done keeps the record.
func (a *answer) done(c *client) {
	c.last = a.op
	c.world.record(a.op)
}

var timing = regexp.MustCompile(`([\w.-]+);dur=[\d.]+;desc="server (\d+), (\w+), ([^"]+)"`)

// guards are reads of the page's scope that are no part of what the page shows.
var guards = map[string]bool{"auth.Guard": true, "auth.Cover": true, "tokens.ByID": true, "tokens.WithOwner": true}

// serversOf returns which servers answered the reads and writes of the page. What is
// primary-only has no choice.
func serversOf(h http.Header) []Server {
	var servers []Server
	for _, m := range timing.FindAllStringSubmatch(strings.Join(h.Values("Server-Timing"), ", "), -1) {
		why := dbroute.Reason(m[4])
		if guards[m[1]] || why == dbroute.PrimaryOnly || why == dbroute.Touched {
			continue
		}
		id, _ := strconv.Atoi(m[2])
		servers = append(servers, Server{ID: id, Replica: m[3] == string(dbroute.Replica), Reason: why})
	}
	return servers
}

// get opens a page.
func (c *client) get(path string) *answer {
	return c.send(http.MethodGet, path, "", "")
}

// post sends a form.
func (c *client) post(path string, fields ...string) *answer {
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	body := form.Encode()
	if body == "" {
		body = "_="
	}
	return c.send(http.MethodPost, path, "application/x-www-form-urlencoded", body)
}

// call calls the API.
func (c *client) call(method, path string, body any, headers ...string) *answer {
	text := ""
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			panic(err) // the bodies are ours
		}
		text = string(encoded)
	}
	if c.bearer != "" {
		headers = append(headers, "Authorization", "Bearer "+c.bearer)
	}
	ids := c.commitIDs()
	if c.is.Marked && ids != "" {
		headers = append(headers, "Commit-Id", ids)
	}
	if method == http.MethodGet && c.step.consistency != "" && !c.idle {
		headers = append(headers, "Read-Consistency", c.step.consistency)
	}
	a := c.send(method, path, "application/json", text, headers...)
	if method == http.MethodGet && !c.idle {
		a.op.Consistency = c.step.consistency
	}
	if c.given != nil {
		a.op.Given = c.given.by
	}
	if a.op.answered() && c.is.Marked {
		c.commitID = cmp.Or(a.header.Get("Commit-Id"), ids) // the one covers the others
	}
	if c.bearer != "" {
		c.accepted(a, c.token, a.status != 0 && a.status != http.StatusUnauthorized && a.status < 500)
	}
	return a
}

// accepted notes whether a credential has counted, if the answer tells.
func (c *client) accepted(a *answer, credential Object, accepted bool) {
	a.op.Credential = string(credential)
	switch {
	case accepted:
		a.op.As = c.person.id
		a.op.Saw = append(a.op.Saw, Sight{Object: credential, Version: 1})
	case a.status == http.StatusUnauthorized || a.status == http.StatusSeeOther || a.status == http.StatusOK:
		a.op.Saw = append(a.op.Saw, Sight{Object: credential, Version: Absent})
	default:
		a.op.As = c.person.id // as whom it was sent
	}
}

func (a *answer) decode(into any) error {
	if err := json.Unmarshal(a.body, into); err != nil {
		return fmt.Errorf("%s: %w in %q", a.op.Action, err, a.body)
	}
	return nil
}

// versionIn finds a number behind a letter in a value, as in "p7 v3 s1.4".
func versionIn(value, letter string) Version {
	for field := range strings.FieldsSeq(value) {
		if digits, ok := strings.CutPrefix(field, letter); ok {
			if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
				return Version(n)
			}
		}
	}
	return Absent
}
