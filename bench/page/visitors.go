package page

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"golang.org/x/sync/errgroup"

	"freshread/bench/servers"
)

// visitors ask one handler for the page, over HTTP.
type visitors struct {
	url    string
	client *http.Client
}

func newVisitors(s *servers.Servers, handler http.Handler) *visitors {
	server := httptest.NewServer(handler)
	s.OnClose(func() error { server.Close(); return nil })
	return &visitors{server.URL + path, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}}
}

// gets gets the page n times, by all clients together.
func (v *visitors) gets(ctx context.Context, n int) error {
	group, ctx := errgroup.WithContext(ctx)
	for i := range clients {
		group.Go(func() error {
			for range (n + i) / clients {
				if _, err := v.get(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func (v *visitors) get(ctx context.Context) (page string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, v.url, nil)
	if err != nil {
		return "", err
	}
	response, err := v.client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", v.url, response.Status, body)
	}
	return string(body), err
}
