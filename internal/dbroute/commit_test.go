package dbroute_test

import (
	"database/sql"
	"time"

	"freshread/internal/dbroute"
	"freshread/internal/stack/stacktest"
)

// commitHolder returns a function for use in a transaction: its COMMIT will wait
// until it is seen to run and then has been called.
func (e *env) commitHolder() (hold func(then func())) {
	e.tb.Helper()
	lock, unlock := `FLUSH TABLES WITH READ LOCK`, `UNLOCK TABLES`
	running := `SELECT count(*) FROM information_schema.processlist WHERE info = 'COMMIT'`
	if e.Engine() == dbroute.PostgreSQL {
		e.exec(`CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END $$`)
		e.exec(`CREATE CONSTRAINT TRIGGER wait AFTER UPDATE ON notes DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait()`)
		lock, unlock = `SELECT pg_advisory_lock(1)`, `SELECT pg_advisory_unlock(1)`
		running = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND lower(query) = 'commit' AND state = 'active'`
	}
	admin := e.admin()
	return func(then func()) {
		ctx := stacktest.Context(e.tb)
		conn, err := admin.Conn(ctx)
		stacktest.Must(e.tb, err)
		_, err = conn.ExecContext(ctx, lock)
		stacktest.Must(e.tb, err)
		go func() {
			defer conn.Close()
			defer conn.ExecContext(ctx, unlock)
			for n := 0; n == 0 && ctx.Err() == nil; time.Sleep(time.Millisecond) {
				if err := conn.QueryRowContext(ctx, running).Scan(&n); err != nil {
					e.tb.Error(err)
					return
				}
			}
			then()
		}()
	}
}

// admin is a pool of a superuser of the primary, in the test's database.
func (e *env) admin() *sql.DB {
	e.tb.Helper()
	return stacktest.Admin(e.tb, e.stack, databaseOf(e.tb, e))
}
