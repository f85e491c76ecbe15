// Package stack runs real database servers on this machine, a primary and its
// replicas, and starts, pauses and kills them on request. The demo, the lab and
// the tests stand on it.
package stack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Stack is a primary and its replicas. Its methods may be called at once from
// several goroutines, and so may those of its servers.
type Stack struct {
	engine   engine
	folder   *folder
	servers  []*Server
	settings map[string]string // see Options

	mu      sync.Mutex
	primary *Server
}

// Servers returns all servers by ID, the one that began as the primary first.
func (s *Stack) Servers() []*Server { return slices.Clone(s.servers) }

// Primary returns the primary: after a Promote, the server that was promoted last.
func (s *Stack) Primary() *Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.primary
}

// Replicas returns the servers that are replicas now, by ID.
func (s *Stack) Replicas() []*Server {
	return slices.DeleteFunc(s.Servers(), func(srv *Server) bool { return srv.Role() != roleReplica })
}

// CreateDatabase creates a database on the primary, owned by the role that
// Server.URL logs in as. A replica has it once it has applied it.
func (s *Stack) CreateDatabase(ctx context.Context, name string) error {
	if err := s.engine.createDatabase(ctx, s.Primary(), name); err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	return nil
}

// DropDatabase drops a database, if it exists, and cuts the connections to it.
func (s *Stack) DropDatabase(ctx context.Context, name string) error {
	if err := s.engine.dropDatabase(ctx, s.Primary(), name); err != nil {
		return fmt.Errorf("drop database %s: %w", name, err)
	}
	return nil
}

// WaitApplied returns once every running replica has applied what the primary
// had committed at the call. A paused replica makes it wait for as long as ctx.
func (s *Stack) WaitApplied(ctx context.Context) error {
	position, err := s.engine.committed(ctx, s.Primary())
	if err != nil {
		return fmt.Errorf("read position of the primary: %w", err)
	}
	return each(ctx, s.Replicas(), func(ctx context.Context, r *Server) error {
		err := s.engine.awaitApplied(ctx, r, position)
		if err == nil || !r.running() {
			return nil
		}
		return fmt.Errorf("wait for server %d to apply: %w", r.id, err)
	})
}

// Close ends all servers at once, removes their files and returns when the last
// process is gone. To close a stack again does nothing.
func (s *Stack) Close() error {
	ctx := context.Background() // a server that does not end is no reason to let the others run
	ended := each(ctx, s.servers, func(_ context.Context, srv *Server) error { return srv.end(ctx) })
	if err := errors.Join(ended, s.folder.remove()); err != nil {
		return fmt.Errorf("close stack: %w", err)
	}
	return nil
}

// follow makes a promoted server the primary, which the replicas follow.
func (s *Stack) follow(ctx context.Context, primary *Server) error {
	s.mu.Lock()
	s.primary = primary
	s.mu.Unlock()
	if err := primary.update(func(r *replication) { r.source = nil }); err != nil {
		return err
	}
	return each(ctx, s.Replicas(), func(ctx context.Context, r *Server) error {
		if err := r.update(func(r *replication) { r.source = primary }); err != nil {
			return err
		}
		return r.wrap("redirect", s.engine.reload(ctx, r))
	})
}

// each calls f for all servers at once and returns the first error, which also
// ends the context of the other calls.
func each(ctx context.Context, servers []*Server, f func(context.Context, *Server) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, srv := range servers {
		g.Go(func() error { return f(ctx, srv) })
	}
	return g.Wait()
}
