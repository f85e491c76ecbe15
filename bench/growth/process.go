package growth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// outcome is what processes did from their start to their end.
type outcome struct {
	cpu   time.Duration // of all of them
	took  time.Duration // to serve the pages
	trips int64         // meanwhile
	polls float64       // round trips each second before
}

// process is one process of the site.
type process struct {
	command *exec.Cmd
	url     string
}

func (f *fleet) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, f.program, args...)
	c.Env = slices.Clone(f.environment) // and nothing of ours, which may be that of another site
	c.Stderr = io.Discard               // a line for each request is written all the same
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	return c
}

// warmUps is how many pages each process serves before any counts, so that connections are
// open and statements prepared.
const warmUps = 200

// run starts n processes, leaves them alone for a while, has them serve pages, and stops
// them.
func (f *fleet) run(ctx context.Context, n, requests int, idle time.Duration) (o outcome, err error) {
	all := make([]*process, n)
	defer func() {
		for _, p := range all {
			if p != nil {
				cpu, stopErr := p.stop()
				o.cpu, err = o.cpu+cpu, errors.Join(err, stopErr)
			}
		}
	}()
	for i := range all {
		if all[i], err = f.start(ctx); err != nil {
			return o, err
		}
	}
	before := f.proxies.RoundTrips()
	time.Sleep(idle)
	o.polls = float64(f.proxies.RoundTrips()-before) / idle.Seconds()
	if err := visit(ctx, all, n*warmUps); err != nil {
		return o, err
	}
	before, start := f.proxies.RoundTrips(), time.Now()
	err = visit(ctx, all, requests)
	o.took, o.trips = time.Since(start), f.proxies.RoundTrips()-before
	return o, err
}

// start returns once the process serves.
func (f *fleet) start(ctx context.Context) (*process, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := listener.Addr().String()
	listener.Close()
	p := &process{f.command(ctx, "serve", "--workers=false"), "http://" + addr}
	p.command.Env = append(p.command.Env, "ADDR="+addr)
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", f.program, err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		response, err := http.Get(p.url + "/readyz")
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return p, nil
			}
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			_, stopErr := p.stop()
			return nil, errors.Join(errors.New("the site does not get ready"), err, stopErr)
		}
	}
}

// stop returns what the process has used.
func (p *process) stop() (cpu time.Duration, err error) {
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return 0, err
	}
	if err := p.command.Wait(); err != nil {
		return 0, fmt.Errorf("stop the site: %w", err)
	}
	return p.command.ProcessState.UserTime() + p.command.ProcessState.SystemTime(), nil
}

// visitors is how many ask at the same time.
const visitors = 4

// visit gets a page from each process, one process after the other: here they share cores,
// which is nothing that a site with more processes has to do.
func visit(ctx context.Context, all []*process, requests int) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: visitors}}
	defer client.CloseIdleConnections()
	for _, p := range all {
		group, ctx := errgroup.WithContext(ctx)
		for i := range visitors {
			group.Go(func() error {
				for range (requests/len(all) + i) / visitors {
					if err := get(ctx, client, p.url+"/posts/1"); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	return nil
}

func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}
