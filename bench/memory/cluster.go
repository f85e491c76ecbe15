package memory

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"freshread/internal/dbroute"
)

// Cluster is a cluster of package dbroute whose servers are in memory.
type Cluster struct {
	*dbroute.Cluster
	Primary  *Server
	Replicas []*Server
}

// positions are what the servers of an engine have reached unless told otherwise.
var positions = map[dbroute.Engine]string{
	dbroute.PostgreSQL: "F/0",
	dbroute.MySQL:      "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-1000000",
}

// Open opens a cluster of one primary and some replicas at a position, or at some
// position if that is empty.
func Open(engine dbroute.Engine, replicas int, position string) (*Cluster, error) {
	position = cmp.Or(position, positions[engine])
	c := &Cluster{Primary: &Server{Engine: engine, Role: dbroute.Primary, ID: 1, Position: position}}
	servers := map[string]*Server{"memory:1": c.Primary}
	cfg := dbroute.Config{
		Name: "memory", HealthInterval: 5 * time.Millisecond, Primary: string(engine) + "://memory:1/", Logger: slog.New(slog.DiscardHandler),
		WrapConnector: func(_ dbroute.Role, address string, _ driver.Connector) driver.Connector {
			return servers[address].Connector()
		},
	}
	for id := 2; id <= replicas+1; id++ {
		s := &Server{Engine: engine, Role: dbroute.Replica, ID: id, Position: position}
		address := fmt.Sprintf("memory:%d", id)
		c.Replicas, servers[address] = append(c.Replicas, s), s
		cfg.Replicas = append(cfg.Replicas, string(engine)+"://"+address+"/")
	}
	var err error
	if c.Cluster, err = dbroute.Open(cfg); err != nil {
		return nil, fmt.Errorf("open cluster in memory: %w", err)
	}
	return c, nil
}

// Settle watches the servers until all replicas are up, and then no longer: what they have
// reached is known from then on, and nothing runs besides what is measured.
func (c *Cluster) Settle(ctx context.Context) error {
	ctx, stop := context.WithTimeoutCause(ctx, settleLimit, errors.New("the servers in memory are not up: they may not know a query of dbroute's"))
	var watching sync.WaitGroup
	watching.Go(func() { c.Watch(ctx) })
	defer watching.Wait()
	defer stop()
	for !c.settled() {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// ReplicaPool is the pool that the cluster's reads of its first replica use, for what they
// are compared to. Package dbroute gives it to nobody: no marker is heeded by what reads
// through it.
func (c *Cluster) ReplicaPool() *sql.DB {
	reads := reflect.ValueOf(c.Cluster).Elem().FieldByName("replicas").Index(0).Elem().FieldByName("reads")
	return (*sql.DB)(reads.UnsafePointer())
}

const settleLimit = 10 * time.Second

func (c *Cluster) settled() bool {
	for _, s := range c.Status() {
		if s.State != dbroute.Up || s.Position.IsZero() {
			return false
		}
	}
	return true
}
