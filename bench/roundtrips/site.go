package roundtrips

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"

	"freshread/bench/app"
	"freshread/bench/servers"
	"freshread/bench/wire"
	"freshread/internal/site"
)

// counted is the site on servers that it reaches through proxies. Nobody watches the
// servers, so that nothing is counted but what requests do.
type counted struct {
	servers *servers.Servers
	proxies wire.Proxies
	url     string
}

func newCounted(ctx context.Context, s *servers.Servers) (*counted, error) {
	if err := app.Prepare(ctx, s); err != nil {
		return nil, err
	}
	cfg, proxies, err := wire.Through(s.Config())
	s.OnClose(proxies.Close)
	if err != nil {
		return nil, err
	}
	handler, err := app.New(ctx, s, cfg, func(cfg *site.Config) { cfg.ShowReads = true })
	if err != nil {
		return nil, err
	}
	server := httptest.NewServer(handler)
	s.OnClose(func() error { server.Close(); return nil })
	return &counted{s, proxies, server.URL}, nil
}

// pause stops or resumes all replicas.
func (c *counted) pause(ctx context.Context, paused bool) error {
	for _, r := range c.servers.Replicas() {
		change := r.ResumeApply
		if paused {
			change = r.PauseApply
		}
		if err := change(ctx); err != nil {
			return err
		}
	}
	if !paused {
		return c.servers.WaitApplied(ctx)
	}
	return nil
}

// visitor is a browser.
type visitor struct {
	site   *counted
	client *http.Client
}

func (c *counted) visitor() (*visitor, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &visitor{c, &http.Client{Jar: jar, CheckRedirect: stay}}, nil
}

// user is a browser of somebody signed in.
func (c *counted) user(ctx context.Context) (*visitor, error) {
	v, err := c.visitor()
	if err != nil {
		return nil, err
	}
	name := strings.ToLower(rand.Text())
	_, err = v.send(ctx, http.MethodPost, "/signup", url.Values{
		"name": {name}, "email": {name + "@example.com"}, "password": {rand.Text()},
	})
	return v, err
}

// send returns the statements that a request ran, as the response names them.
func (v *visitor) send(ctx context.Context, method, path string, form url.Values) ([]string, error) {
	request, err := http.NewRequestWithContext(ctx, method, v.site.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := v.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= 400 {
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, response.Status, body)
	}
	return names(response.Header.Values("Server-Timing")), nil
}

// names takes the names out of `posts.ByID;dur=0.2;desc="…", posts.Comments;…`.
func names(timings []string) (list []string) {
	for _, line := range timings {
		for timing := range strings.SplitSeq(line, `", `) {
			name, _, _ := strings.Cut(timing, ";")
			list = append(list, name)
		}
	}
	return list
}
