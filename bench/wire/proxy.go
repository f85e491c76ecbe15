// Package wire counts round trips where they are made: on the network.
package wire

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// Proxy passes connections on to one server, and counts the round trips on all of them: how
// often a client speaks after the server has.
type Proxy struct {
	listener net.Listener
	target   string
	trips    atomic.Int64

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	done  sync.WaitGroup
}

// Listen starts a proxy of the server at an address.
func Listen(target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w", target, err)
	}
	p := &Proxy{listener: listener, target: target, conns: map[net.Conn]struct{}{}}
	p.done.Go(p.accept)
	return p, nil
}

// Addr is where clients connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// RoundTrips is how many there have been.
func (p *Proxy) RoundTrips() int64 { return p.trips.Load() }

// Close ends all connections.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.mu.Lock()
	for conn := range p.conns {
		conn.Close()
	}
	p.mu.Unlock()
	p.done.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // it was closed
		}
		p.done.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		client.Close()
		return
	}
	p.keep(client, server)
	var waits atomic.Bool // the client has spoken, and the server not yet
	var both sync.WaitGroup
	both.Go(func() {
		pass(server, client, func() {
			if !waits.Swap(true) {
				p.trips.Add(1)
			}
		})
		server.Close()
	})
	both.Go(func() {
		pass(client, server, func() { waits.Store(false) })
		client.Close()
	})
	both.Wait()
	p.forget(client, server)
}

// pass calls seen for whatever comes, before it is passed on.
func pass(to io.Writer, from io.Reader, seen func()) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			seen()
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *Proxy) keep(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = struct{}{}
	}
}

func (p *Proxy) forget(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.conns, c)
	}
}

// Proxies are those of all servers of a cluster.
type Proxies []*Proxy

// RoundTrips is how many there have been to all servers.
func (ps Proxies) RoundTrips() (n int64) {
	for _, p := range ps {
		n += p.RoundTrips()
	}
	return n
}

// Close closes all.
func (ps Proxies) Close() error {
	var errs []error
	for _, p := range ps {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}
