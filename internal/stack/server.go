package stack

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

const (
	rolePrimary = "primary"
	roleReplica = "replica"
)

// Server is one database server of a stack.
type Server struct {
	stack *Stack
	id    int
	dir   string // holds its configuration, its log and its data
	port  int

	mu          sync.Mutex
	replication replication
	process     *process // nil before the first start
	ended       bool     // it must not be started any more

	steering sync.Mutex // held while an engine changes how the server replicates, in more than one step
}

// replication is what can change about a server while it runs.
type replication struct {
	source *Server // the server it follows; a primary has none
	delay  time.Duration
	eager  bool // the delay does not count for the moment
}

func newServer(s *Stack, id int, r replication) *Server {
	return &Server{
		stack:       s,
		id:          id,
		dir:         filepath.Join(s.folder.path, strconv.Itoa(id)),
		replication: r,
	}
}

// ID returns the number by which the server also names itself in SQL: 1 for the
// one that began as the primary, from 2 for the replicas.
func (s *Server) ID() int { return s.id }

// Addr returns host and port. The server keeps them when it is started again.
func (s *Server) Addr() string { return local(s.port) }

// Version returns the version of the database, such as "15.18".
func (s *Server) Version() string { return s.stack.engine.version() }

// URL returns the address of a database for the ordinary role, which owns it.
func (s *Server) URL(database string) string { return s.stack.engine.url(s, database) }

// AdminURL returns the address of a database for the superuser.
func (s *Server) AdminURL(database string) string { return s.stack.engine.adminURL(s, database) }

// Role returns "primary" or "replica". A primary that a promoted replica has
// replaced stays one: started again, it takes writes that no replica will see.
func (s *Server) Role() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.replication.source == nil {
		return rolePrimary
	}
	return roleReplica
}

// Delay returns how long the server holds a commit back before it applies it.
func (s *Server) Delay() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replication.delay
}

func (s *Server) replicates() replication {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replication
}

// SetDelay changes the delay, at once and also for commits that are being held
// back. It lasts when the server is started again. The delay must be one that
// CheckDelay accepts.
func (s *Server) SetDelay(ctx context.Context, d time.Duration) error {
	err := CheckDelay(s.stack.engine.name(), d)
	if err == nil {
		err = s.update(func(r *replication) { r.delay = d })
	}
	if err == nil {
		err = s.stack.engine.reload(ctx, s)
	}
	return s.wrap("set delay of", err)
}

// PauseApply stops a replica from applying what it receives. When it returns the
// replica has confirmed it, and applies nothing more until ResumeApply or until it
// is started again. On PostgreSQL a commit whose delay it was sitting out counts the
// pause as the rest of that.
func (s *Server) PauseApply(ctx context.Context) error {
	return s.wrap("pause", s.stack.engine.pauseApply(ctx, s))
}

// ResumeApply lets a paused replica go on.
func (s *Server) ResumeApply(ctx context.Context) error {
	return s.wrap("resume", s.stack.engine.resumeApply(ctx, s))
}

// Promote makes a replica the primary and returns once it takes writes. The other
// replicas follow it from then on. The old primary is left alone, so whoever wants
// no second one has stopped or killed it before.
func (s *Server) Promote(ctx context.Context) error {
	err := s.stack.engine.promote(ctx, s)
	if err == nil {
		err = s.stack.follow(ctx, s)
	}
	return s.wrap("promote", err)
}

// Demote makes a primary refuse writes, as if it were a replica, and nobody takes its
// place until Reinstate. On PostgreSQL that takes a restart.
func (s *Server) Demote(ctx context.Context) error {
	return s.wrap("demote", s.stack.engine.demote(ctx, s))
}

// Reinstate makes a demoted primary the primary again. On PostgreSQL it begins a new
// timeline, which the replicas follow.
func (s *Server) Reinstate(ctx context.Context) error {
	return s.wrap("reinstate", s.stack.engine.reinstate(ctx, s))
}

// update changes how the server replicates and writes it into its configuration,
// which the server reads when it starts or is told to.
func (s *Server) update(change func(*replication)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.replication)
	return s.stack.engine.configure(s, s.replication)
}

// wrap adds to an error what was being done, and to which server.
func (s *Server) wrap(operation string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s server %d: %w", operation, s.id, err)
}
