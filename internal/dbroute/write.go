package dbroute

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Tx is an open transaction on the primary. Placeholders are written ? on every
// engine. It is valid only inside the function that received it.
type Tx struct {
	tx       *sql.Tx
	engine   engine
	rebinder *rebinder
	after    []func(context.Context, Marker)
}

// QueryContext runs a query in the transaction.
func (t *Tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return t.tx.QueryContext(ctx, t.rebinder.rebind(query), args...)
}

// QueryRowContext runs a query for one row in the transaction.
func (t *Tx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return t.tx.QueryRowContext(ctx, t.rebinder.rebind(query), args...)
}

// ExecContext runs a statement in the transaction.
func (t *Tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return t.tx.ExecContext(ctx, t.rebinder.rebind(query), args...)
}

// InsertID runs an INSERT of one row into a table whose key column is id, and
// returns the key that the database gave it. Engines differ in how they tell.
func (t *Tx) InsertID(ctx context.Context, query string, args ...any) (int64, error) {
	return t.engine.insertID(ctx, t.tx, t.rebinder.rebind(query), args)
}

// Querier returns the transaction for functions that only read.
func (t *Tx) Querier() Querier { return Querier{&handle{tx: t}} }

// SQL returns the transaction for libraries that take one, such as River's
// InsertTx. Write commits it; nobody else may. Statements run through it need
// the engine's own placeholders, and must not be prepared: a deadlock that a prepared
// one runs into goes unnoticed on MySQL and MariaDB.
func (t *Tx) SQL() *sql.Tx { return t.tx }

// AfterCommit registers what runs once the transaction has committed, in order of
// registration, with the marker of that commit: how its commit ID gets to whom the
// scope's marker does not reach. It has the commit timeout, and does not end early
// when the client goes away. If it is not run, because the process died or the
// outcome is unknown, only what the transaction itself has left behind tells of the
// commit. Of a Touch no commit ID is captured: the marker is then unknown.
func (t *Tx) AfterCommit(fn func(context.Context, Marker)) { t.after = append(t.after, fn) }

// openTx is the transaction that a context runs in.
type openTx struct {
	tx    *Tx
	who   identity
	scope *Scope
	touch bool
	read  bool  // something was read by Read
	err   error // of a nested Write, which rolls the whole back
}

type txKey struct{ c *Cluster }

type anyTxKey struct{}

// InTx reports whether ctx is one that a Write or a Touch, of whichever
// cluster, gave to its function. What is read with it may be seen by nobody else.
func InTx(ctx context.Context) bool { return ctx.Value(anyTxKey{}) != nil }

func (c *Cluster) openTx(ctx context.Context) *openTx {
	open, _ := ctx.Value(txKey{c}).(*openTx)
	return open
}

// Write runs fn in a transaction on the primary, commits it, and captures the
// commit ID. The rest of the scope in ctx then reads the primary, and the
// scope's marker covers the commit. An error or a panic of fn rolls back. After an
// error too the rest of the scope reads the primary, whose state fn was judged by. A
// Write with the context that another Write gave to its fn joins that
// transaction; if it fails, the whole is rolled back.
//
// If the primary cannot be reached the error is ErrPrimaryUnavailable and
// nothing was written. If COMMIT was sent but not answered it is
// ErrCommitUnknown. A client that goes away before COMMIT is sent rolls back;
// one that goes away later changes nothing.
func (c *Cluster) Write(ctx context.Context, name string, fn func(context.Context, *Tx) error) error {
	return c.write(ctx, name, false, fn)
}

// Touch is a Write that leaves no marker and moves no reads: for what no reader
// has to see at once, such as last_used_at. A touch on every request would
// otherwise keep an active client on the primary for ever.
func (c *Cluster) Touch(ctx context.Context, name string, fn func(context.Context, *Tx) error) error {
	return c.write(ctx, name, true, fn)
}

func (c *Cluster) write(ctx context.Context, name string, touch bool, fn func(context.Context, *Tx) error) error {
	var err error
	if open := c.openTx(ctx); open != nil {
		err = open.join(ctx, touch, fn)
	} else {
		err = c.transact(ctx, name, touch, fn)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// run runs the function of the outermost Write, after what has to be part of the
// same transaction.
func (o *openTx) run(ctx context.Context, fn func(context.Context, *Tx) error) error {
	if !o.touch {
		if err := o.scope.beginWrite(ctx, o.tx); err != nil {
			return err
		}
	}
	if err := fn(ctx, o.tx); err != nil {
		return err
	}
	return o.err
}

// join runs the function of a nested Write. The error of the first that fails is the
// whole's.
func (o *openTx) join(ctx context.Context, touch bool, fn func(context.Context, *Tx) error) error {
	before := o.err
	o.err = errNestedPanic // unless what follows returns
	var err error
	if o.touch && !touch {
		o.touch = false
		err = o.scope.beginWrite(ctx, o.tx)
	}
	if err == nil {
		err = fn(ctx, o.tx)
	}
	o.err = cmp.Or(before, err)
	return err
}

// transact owns the transaction from its connection to the capture of its
// commit ID, and records it in the scope.
//
// The commit ID is captured here and nowhere else. Before COMMIT it does not
// exist: a position read inside the transaction lies before the commit. On
// another connection it may be a later one, or on another server. In the
// caller or in a response hook it would be lost with a panic, or with a client
// that goes away.
func (c *Cluster) transact(ctx context.Context, name string, touch bool, fn func(context.Context, *Tx) error) error {
	s := c.scope(ctx)
	start := time.Now()
	access := Access{Name: name, Write: true, Role: Primary, Reason: Written, Failed: true}
	conn, who, err := acquire(ctx, c.primary.writes)
	if err != nil {
		return c.explain(ctx, c.primary, err)
	}
	defer conn.Close()
	access.ServerID = c.primary.id(who)
	defer func() { access.Duration = time.Since(start); c.record(s, access) }()

	open := &openTx{who: who, scope: s, touch: touch}
	err = c.commit(ctx, conn, open, fn)
	if open.touch {
		access.Reason = Touched
	}
	undone := err != nil && open.tx != nil && !errors.Is(err, ErrPrimaryUnavailable) && !errors.Is(err, ErrCommitUnknown)
	if s.mustNote(c.primary) && (undone && ctx.Err() == nil || err == nil && open.touch && open.read) {
		s.saw(ctx, c.primary, conn) // what a Write that succeeds has seen its own commit covers
	}
	switch {
	case err == nil:
		m := Marker{Unknown: true}
		if !open.touch {
			m = c.capture(ctx, conn, who)
			s.wrote(m)
		}
		conn.Close() // what runs now may need one from the same pool
		c.afterCommit(ctx, open.tx, m)
	case errors.Is(err, ErrCommitUnknown) && !open.touch:
		s.wrote(Marker{Written: writtenAt(time.Now()), Unknown: true})
	case undone && !open.touch && s != nil:
		s.leaveReplica(AfterWrite)
	}
	access.Failed = err != nil
	return err
}

// commit runs fn between BEGIN and COMMIT. The transaction follows ctx up to
// COMMIT; from there on the client's going away must not cut the connection,
// or its outcome would be unknown without need.
func (c *Cluster) commit(ctx context.Context, conn *sql.Conn, open *openTx, fn func(context.Context, *Tx) error) error {
	txCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	unfollow := context.AfterFunc(ctx, cancel)
	defer unfollow()
	tx, err := conn.BeginTx(txCtx, nil)
	if err != nil {
		return c.explain(ctx, c.primary, fmt.Errorf("begin: %w", err))
	}
	end := func(commitOrRollback func() error) error {
		defer time.AfterFunc(c.cfg.CommitTimeout, cancel).Stop()
		return commitOrRollback()
	}
	// After a commit this does nothing; after an error of fn, or in a panic, it
	// is what counts.
	defer end(tx.Rollback)
	open.tx = &Tx{tx: tx, engine: c.engine, rebinder: &c.rebinder}
	inTx := context.WithValue(context.WithValue(ctx, anyTxKey{}, true), txKey{c}, open)
	if err := open.run(inTx, fn); err != nil {
		if end(tx.Rollback) == nil && c.fault(err) == faultConnection {
			return err // fn's own: the connection still answers
		}
		return c.explain(ctx, c.primary, err)
	}
	if !unfollow() {
		return context.Cause(ctx)
	}
	return c.commitError(ctx, end(tx.Commit))
}

// commitError tells a COMMIT that the server refused from one that it did not
// answer. Only the former is known not to have happened.
func (c *Cluster) commitError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case c.fault(err) == faultStatement:
		return c.explain(ctx, c.primary, fmt.Errorf("commit: %w", err))
	}
	return fmt.Errorf("commit: %w: %w", ErrCommitUnknown, err)
}

func (c *Cluster) afterCommit(ctx context.Context, tx *Tx, m Marker) {
	ctx = context.WithoutCancel(ctx)
	for _, fn := range tx.after {
		ctx, cancel := context.WithTimeout(ctx, c.cfg.CommitTimeout)
		fn(ctx, m)
		cancel()
	}
}

// capture returns the marker of the commit that conn has just made. The write
// has happened, so a capture that fails is no failure of it: the marker is
// unknown instead.
func (c *Cluster) capture(ctx context.Context, conn *sql.Conn, who identity) Marker {
	m := Marker{Written: writtenAt(time.Now())}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.CommitTimeout)
	defer cancel()
	id, err := c.engine.lastCommit(ctx, conn, who)
	if err != nil {
		c.log.WarnContext(ctx, "commit ID not captured", "error", err)
		m.Unknown = true
		return m
	}
	m.Commit = id
	return m
}
