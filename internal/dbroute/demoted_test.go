package dbroute_test

import (
	"context"
	"errors"
	"testing"

	"freshread/internal/dbroute"
	"freshread/internal/stack/stacktest"
)

// A primary that has become read-only under open connections is no primary any
// more. A write must find that out, and not be taken for a faulty statement.
func TestDemotedPrimaryIsUnavailable(t *testing.T) {
	// PostgreSQL becomes a standby only by a restart, which ends its connections.
	for _, engine := range []string{"mysql", "mariadb"} {
		t.Run(engine, func(t *testing.T) { testDemoted(t, engine) })
	}
}

func testDemoted(t *testing.T, engine string) {
	stacktest.Only(t, engine)
	e := newEnvOn(t, engine, stacktest.Start(t, engine, 1))
	write := func() error {
		return e.Write(stacktest.Context(t), "notes.Set", func(ctx context.Context, tx *dbroute.Tx) error {
			_, err := tx.ExecContext(ctx, `UPDATE notes SET text = 'new' WHERE id = 1`)
			return err
		})
	}
	stacktest.Must(t, write())
	admin := e.admin()
	_, err := admin.Exec(`SET GLOBAL read_only = ON`)
	stacktest.Must(t, err)
	for range 3 {
		if err := write(); !errors.Is(err, dbroute.ErrPrimaryUnavailable) {
			t.Errorf("got %v", err)
		}
	}
	_, err = admin.Exec(`SET GLOBAL read_only = OFF`)
	stacktest.Must(t, err)
	stacktest.Must(t, write())
}
