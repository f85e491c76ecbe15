package dbroute_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"freshread/internal/dbroute"
	"freshread/internal/stack/stacktest"
)

// What the server refuses, it has answered.
func TestRefusedStatementTakesNoReplicaOut(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		for _, mistake := range e.mistakes {
			t.Run(mistake, func(t *testing.T) {
				e.watched()
				e.wantNoBlame(t, func() error {
					ctx, _ := e.request(dbroute.Marker{})
					return e.Read(ctx, "mistake", func(q dbroute.Querier) error {
						return q.QueryRowContext(ctx, mistake).Scan(new(string))
					})
				}, nil)
			})
		}
	})
}

// What the caller's function reads beside the database may break in the same ways.
func TestErrorThatLooksLikeALostConnection(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		for name, mine := range e.lookalikes(t) {
			t.Run(name, func(t *testing.T) {
				e.watched()
				for server, ctx := range e.contexts() {
					e.wantNoBlame(t, func() error {
						runs := 0
						err := e.Read(ctx, "broken", func(q dbroute.Querier) error {
							if runs++; runs > 1 {
								t.Error("it runs again, having read the " + server)
							}
							_, err := q.QueryContext(ctx, `SELECT text FROM notes`) // and leaves it open
							return cmp.Or(err, mine)
						})
						return err
					}, mine)
				}
				e.wantNoBlame(t, func() error {
					return e.Write(stacktest.Context(t), "broken", func(ctx context.Context, tx *dbroute.Tx) error {
						_, err := tx.QueryContext(ctx, `SELECT text FROM notes`)
						return cmp.Or(err, mine)
					})
				}, mine)
			})
		}
	})
}

// lookalikes are errors that have nothing to do with e's servers.
func (e *env) lookalikes(t *testing.T) map[string]error {
	t.Helper()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	stacktest.Must(t, err)
	defer silent.Close()
	conn, err := net.Dial("tcp", silent.Addr().String())
	stacktest.Must(t, err)
	defer conn.Close()
	stacktest.Must(t, conn.SetDeadline(time.Now()))
	_, unanswered := conn.Read(make([]byte, 1))
	cfg := e.config
	cfg.Primary = (&cutter{listener: silent}).url(t, cfg.Primary+e.dialing)
	other := openCluster(t, cfg)
	return map[string]error{
		"an empty file":    json.NewDecoder(strings.NewReader("")).Decode(new(int)),
		"a truncated file": json.NewDecoder(strings.NewReader("[")).Decode(new(int)),
		"another server":   unanswered,
		"another database": other.Read(context.Background(), "r", func(dbroute.Querier) error { return nil }),
	}
}

// wantNoBlame expects an error that is no server's fault, and of mine if that is not nil:
// another read of the replica goes on meanwhile.
func (e *env) wantNoBlame(t *testing.T, f func() error, mine error) {
	t.Helper()
	ctx, scope := e.NewScope(context.Background())
	scope.RouteAnywhere(dbroute.Marker{})
	goOn := e.held(ctx, e.Cluster)
	err := f()
	if err == nil || mine != nil && !errors.Is(err, mine) {
		t.Errorf("got %v", err)
	}
	if errors.Is(err, dbroute.ErrPrimaryUnavailable) && !errors.Is(mine, dbroute.ErrPrimaryUnavailable) {
		t.Errorf("the primary is blamed for %v", err)
	}
	stacktest.Must(t, goOn())
	if a := scope.Accesses(); len(a) != 1 || a[0].ServerID != 2 {
		t.Errorf("the other read has become %+v", a)
	}
}
