package sitetest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"freshread/internal/dbroute"
	"freshread/internal/stack/stacktest"
)

// Program calls the API. It keeps no cookies.
type Program struct {
	Site  *Site
	URL   string // of the process that it talks to
	Token string // none if empty
}

// Program returns one that has a token of a user; of nobody, if user is nil.
func (s *Site) Program(user *Browser) *Program {
	s.T.Helper()
	p := &Program{Site: s, URL: s.URL}
	if user != nil {
		p.Token = p.Make(user).Text("token")
	}
	return p
}

// Make makes a token of a user.
func (p *Program) Make(user *Browser) *Reply {
	p.Site.T.Helper()
	return p.Send(http.MethodPost, "/api/tokens",
		map[string]any{"email": user.Email, "password": user.Password, "device_name": "test"}).Want(http.StatusCreated)
}

// With returns a program with another token.
func (p *Program) With(token string) *Program {
	other := *p
	other.Token = token
	return &other
}

// In returns the program for a subtest.
func (p *Program) In(t *testing.T) *Program {
	other := *p
	other.Site = p.Site.In(t)
	return &other
}

// Get sends a GET with headers, each "Name: value".
func (p *Program) Get(path string, headers ...string) *Reply {
	p.Site.T.Helper()
	return p.Send(http.MethodGet, path, nil, headers...)
}

// Send sends a request: body as it is if it is a string, none if it is nil, else as
// JSON. A header replaces one that would be sent anyway.
func (p *Program) Send(method, path string, body any, headers ...string) *Reply {
	t := p.Site.T
	t.Helper()
	var content io.Reader
	switch body := body.(type) {
	case nil:
	case string:
		content = strings.NewReader(body)
	default:
		encoded, err := json.Marshal(body)
		stacktest.Must(t, err)
		content = strings.NewReader(string(encoded))
	}
	request, err := http.NewRequestWithContext(stacktest.Context(t), method, p.URL+path, content)
	stacktest.Must(t, err)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if p.Token != "" {
		request.Header.Set("Authorization", "Bearer "+p.Token)
	}
	replaced := map[string]bool{}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if !replaced[name] {
			request.Header.Del(name)
		}
		replaced[name] = true
		request.Header.Add(name, value)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	stacktest.Must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	stacktest.Must(t, err)
	r := &Reply{t: t, Call: method + " " + path, Status: response.StatusCode, Header: response.Header, Body: string(text)}
	if len(text) > 0 && strings.Contains(response.Header.Get("Content-Type"), "json") {
		if err := json.Unmarshal(text, &r.Fields); err != nil {
			t.Errorf("%s: %v in %s", r.Call, err, text)
		}
	}
	return r
}

// Reply is what a program got.
type Reply struct {
	t      *testing.T
	Call   string
	Status int
	Header http.Header
	Body   string
	Fields map[string]any // of the body
}

// Text returns a field as text, as fmt prints it.
func (r *Reply) Text(field string) string {
	if value, ok := r.Fields[field]; ok {
		return fmt.Sprint(value)
	}
	return ""
}

// Want expects a status, and that fields have values: pairs of a name and a text.
func (r *Reply) Want(status int, fields ...string) *Reply {
	r.t.Helper()
	if r.Status != status {
		r.t.Fatalf("%s: %d, want %d: %s", r.Call, r.Status, status, r.Body)
	}
	for i := 0; i < len(fields); i += 2 {
		if got := r.Text(fields[i]); got != fields[i+1] {
			r.t.Errorf("%s: %s is %q, want %q", r.Call, fields[i], got, fields[i+1])
		}
	}
	return r
}

// WantServer expects that one server answered, for a reason, and that the headers
// and the field server_id say so.
func (r *Reply) WantServer(server string, why dbroute.Reason) *Reply {
	r.t.Helper()
	timings := r.Header.Get("Server-Timing")
	if got := r.Header.Get("X-Server-Id"); got != server || !strings.HasSuffix(timings, fmt.Sprintf(`, %s"`, why)) {
		r.t.Errorf("%s: by server %q, %s; want server %s, %s", r.Call, got, timings, server, why)
	}
	if got := r.Text("server_id"); got != server {
		r.t.Errorf("%s: server_id is %q, want %s: %s", r.Call, got, server, r.Body)
	}
	return r
}

// WantProblem expects a problem document, and a part of what it tells.
func (r *Reply) WantProblem(status int, part string) *Reply {
	r.t.Helper()
	if got := r.Header.Get("Content-Type"); got != "application/problem+json" || r.Text("status") != fmt.Sprint(status) ||
		r.Text("title") == "" || r.Text("detail") == "" || r.Text("request_id") == "" {
		r.t.Errorf("%s: no problem document: %s: %s", r.Call, got, r.Body)
	}
	if !strings.Contains(r.Body, part) {
		r.t.Errorf("%s: %q is not in %s", r.Call, part, r.Body)
	}
	return r.Want(status)
}

// Reads returns what was read and written to answer, in the form "server 1 (primary):
// tokens.ByID".
func (r *Reply) Reads() []string {
	var list []string
	for timing := range strings.SplitSeq(r.Header.Get("Server-Timing"), `", `) {
		name, rest, _ := strings.Cut(timing, ";dur=")
		_, desc, _ := strings.Cut(rest, `desc="`)
		where := strings.SplitN(desc, ", ", 3)
		if len(where) == 3 {
			list = append(list, fmt.Sprintf("%s (%s): %s", where[0], where[1], name))
		}
	}
	return list
}
