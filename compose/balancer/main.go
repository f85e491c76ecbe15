// Command balancer spreads HTTP requests over all processes that a host name
// stands for, as `docker compose up --scale app=3` makes several of them. It keeps
// no client with one process: the site does not need it.
//
//	balancer HOST:PORT    serve on :8080 what HOST:PORT serves
//	balancer healthcheck  ask a running balancer for /readyz
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	addr         = ":8080"
	dialTimeout  = time.Second // the processes are near
	readTimeout  = 30 * time.Second
	idleTimeout  = 2 * time.Minute
	stopDeadline = 10 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		log.Fatalln("balancer:", err)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) != 1:
		return errors.New("want HOST:PORT or healthcheck")
	case args[0] == "healthcheck":
		return healthcheck(ctx)
	}
	host, port, err := net.SplitHostPort(args[0])
	if err != nil {
		return err
	}
	server := &http.Server{
		Addr: addr, Handler: newProxy(&processes{host: host, port: port}),
		ReadTimeout: readTimeout, IdleTimeout: idleTimeout,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopDeadline)
	defer cancel()
	return errors.Join(server.Shutdown(ctx), server.Close())
}

// newProxy takes a new connection for each request, so that each may go to another
// process.
func newProxy(p *processes) http.Handler {
	target := &url.URL{Scheme: "http", Host: net.JoinHostPort(p.host, p.port)}
	return &httputil.ReverseProxy{
		Transport: &http.Transport{DialContext: p.dial, DisableKeepAlives: true},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.SetXForwarded()
			r.Out.Host = r.In.Host // the site compares it with where forms come from
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil { // else the client has left
				log.Println(r.Method, r.URL.Path, err)
			}
			http.Error(w, "The site does not answer. Try again in a moment.", http.StatusBadGateway)
		},
	}
}

// processes are all addresses of a host name.
type processes struct {
	host, port string
	turn       atomic.Uint64
}

// dial connects to the process whose turn it is or, where that is not there any
// more, to one after it. Nothing of the request has been sent by then.
func (p *processes) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	hosts, err := net.DefaultResolver.LookupHost(ctx, p.host)
	if err != nil {
		return nil, err
	}
	slices.Sort(hosts) // they come in any order
	dialer := net.Dialer{Timeout: dialTimeout}
	turn := p.turn.Add(1)
	for i := range hosts {
		host := hosts[(turn+uint64(i))%uint64(len(hosts))]
		var conn net.Conn
		if conn, err = dialer.DialContext(ctx, network, net.JoinHostPort(host, p.port)); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

func healthcheck(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1"+addr+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz: %s", response.Status)
	}
	return nil
}
