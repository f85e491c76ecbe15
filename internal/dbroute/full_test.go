package dbroute_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"testing"
	"time"

	"freshread/internal/dbroute"
	"freshread/internal/stack/stacktest"
)

// A server that takes no more connections serves those that it has: they are not closed
// since one more was refused.
func TestServerThatIsFullKeepsItsConnections(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Start(t, engine, 1)
		e := newEnvOn(t, engine, servers)
		c := &cutter{}
		var cutPolls func()
		c.listener, cutPolls = firstOf(t, servers.Primary().Addr())
		e.watched(func(cfg *dbroute.Config) { cfg.Primary = c.url(t, cfg.Primary) })

		var goOn []func() error
		for range 12 { // of MariaDB, the least that it can be told to take is 10
			replica, scope := e.NewScope(context.Background())
			scope.RouteAnywhere(dbroute.Marker{})
			goOn = append(goOn, e.held(replica, e.Cluster), e.held(dbroute.UsePrimary(context.Background()), e.Cluster))
		}
		spare := e.held(dbroute.UsePrimary(context.Background()), e.Cluster)
		stacktest.Must(t, spare()) // for the read that is refused by the replica
		e.fill()
		ctx, _ := e.request(dbroute.Marker{})
		e.want(ctx, "old", 1, dbroute.ReplicaFailed)
		if state := e.Status()[1].State; state != dbroute.Up {
			t.Errorf("the replica is %s", state)
		}
		cutPolls()
		e.wantState(0, dbroute.Down)
		time.Sleep(7 * time.Second) // longer than a primary may give no answer
		for _, goOn := range goOn {
			if err := goOn(); err != nil {
				t.Error(err)
			}
		}
	})
}

// fill makes all servers refuse new connections.
func (e *env) fill() {
	e.tb.Helper()
	if e.Engine() == dbroute.PostgreSQL {
		app, err := url.Parse(e.config.Primary)
		stacktest.Must(e.tb, err)
		_, err = e.admin().Exec(`ALTER ROLE "` + app.User.Username() + `" CONNECTION LIMIT 1`)
		stacktest.Must(e.tb, err)
		e.applied()
		return
	}
	database := databaseOf(e.tb, e)
	cfg := dbroute.Config{Name: "admin", Primary: e.stack.Primary().AdminURL(database), Logger: e.config.Logger}
	cfg.Replicas = []string{e.stack.Replicas()[0].AdminURL(database)}
	admin := openCluster(e.tb, cfg)
	ctx, scope := admin.NewScope(context.Background())
	scope.RouteAnywhere(dbroute.Marker{})
	take := func(n int) {
		for _, on := range []context.Context{ctx, dbroute.UsePrimary(ctx)} {
			stacktest.Must(e.tb, admin.Read(on, "take", func(q dbroute.Querier) error {
				rows, err := q.QueryContext(on, fmt.Sprintf(`SET GLOBAL max_connections = %d`, n))
				if err == nil {
					rows.Close()
				}
				return err
			}))
		}
	}
	take(10)
	e.tb.Cleanup(func() { take(100) })
}

// firstOf is a proxy, and a function that cuts the first of its connections.
func firstOf(t *testing.T, target string) (net.Listener, func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	stacktest.Must(t, err)
	t.Cleanup(func() { l.Close() })
	first := make(chan net.Conn, 1)
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			select {
			case first <- client:
			default:
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				client.Close()
				continue
			}
			go func() { defer client.Close(); io.Copy(client, server) }()
			go func() { defer server.Close(); io.Copy(server, client) }()
		}
	}()
	return l, func() { (<-first).Close() }
}
