package dbroute_test

import (
	"context"
	"errors"
	"testing"

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
				})
			})
		}
	})
}

// wantNoBlame expects an error that is no server's fault: another read of the replica
// goes on meanwhile.
func (e *env) wantNoBlame(t *testing.T, read func() error) {
	t.Helper()
	ctx, scope := e.NewScope(context.Background())
	scope.RouteAnywhere(dbroute.Marker{})
	goOn := e.held(ctx, e.Cluster)
	if err := read(); err == nil || errors.Is(err, dbroute.ErrPrimaryUnavailable) {
		t.Errorf("got %v", err)
	}
	stacktest.Must(t, goOn())
	if a := scope.Accesses(); len(a) != 1 || a[0].ServerID != 2 {
		t.Errorf("the other read has become %+v", a)
	}
}
