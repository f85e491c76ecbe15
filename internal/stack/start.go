package stack

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// startLimit is when Start gives up on servers that run but never get ready.
	startLimit = time.Minute

	// portAttempts is how often Start tries other ports after it lost one to
	// another process.
	portAttempts = 5
)

// Options says which servers to start.
type Options struct {
	// Engine is the database: "postgres", "mysql" or "mariadb", or "postgres19" for
	// the PostgreSQL 19 that scripts/install puts into a folder of its own.
	Engine string

	// Replicas has one entry for each replica: how long the replica holds a
	// commit back before it applies it, which CheckDelay must accept. To seed a
	// delayed replica quickly, start it with no delay and call Server.SetDelay
	// afterwards.
	Replicas []time.Duration

	// Settings are further settings of every server, in the engine's own names. They
	// win over the stack's own. An option without a value has the empty one.
	Settings map[string]string

	// Dir is where the stack makes its folder. Empty means os.TempDir. When root
	// starts the stack, the user that the servers run as must be able to enter it.
	Dir string
}

// Start starts a primary and its replicas, and returns once the primary accepts
// queries and every replica streams from it. Before that it removes what earlier
// stacks left in the same Dir when their process was killed. When it fails or ctx
// ends, it leaves nothing there itself.
func Start(ctx context.Context, o Options) (*Stack, error) {
	e, err := newEngine(ctx, o.Engine)
	if err != nil {
		return nil, err
	}
	for _, delay := range o.Replicas {
		if err := CheckDelay(o.Engine, delay); err != nil {
			return nil, err
		}
	}
	parent, err := parentFolder(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("find folder for %s: %w", o.Engine, err)
	}
	if err := sweep(ctx, parent); err != nil {
		return nil, err
	}
	f, err := createFolder(parent)
	if err != nil {
		return nil, fmt.Errorf("create folder for %s: %w", o.Engine, err)
	}
	s := newStack(e, f, o.Replicas)
	s.settings = o.Settings
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", o.Engine, err), s.Close())
	}
	return s, nil
}

func newStack(e engine, f *folder, delays []time.Duration) *Stack {
	s := &Stack{engine: e, folder: f}
	s.primary = newServer(s, 1, replication{})
	s.servers = []*Server{s.primary}
	for i, delay := range delays {
		s.servers = append(s.servers, newServer(s, 2+i, replication{source: s.primary, delay: delay}))
	}
	return s
}

func (s *Stack) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("not ready after %s", startLimit))
	defer cancel()

	if err := s.createServers(ctx); err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		err := s.launch(ctx)
		if !errors.Is(err, errPortTaken) || attempt == portAttempts {
			return err
		}
		if err := each(ctx, s.servers, func(ctx context.Context, srv *Server) error { return srv.Stop(ctx) }); err != nil {
			return err
		}
	}
}

func (s *Stack) createServers(ctx context.Context) error {
	for _, srv := range s.servers {
		if err := makeDir(srv.dir); err != nil {
			return err
		}
	}
	return s.engine.create(ctx, s.servers)
}

// launch starts all servers on ports that were free a moment ago.
func (s *Stack) launch(ctx context.Context) error {
	ports, err := freePorts(len(s.servers))
	if err != nil {
		return err
	}
	for i, srv := range s.servers {
		srv.port = ports[i]
	}
	return each(ctx, s.servers, func(ctx context.Context, srv *Server) error {
		if err := srv.Start(ctx); err != nil {
			return err
		}
		if srv.Role() == rolePrimary {
			return nil
		}
		if err := s.engine.awaitStreaming(ctx, srv); err != nil {
			return fmt.Errorf("wait for server %d to stream: %w", srv.id, err)
		}
		return nil
	})
}
