package jobs

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"freshread/internal/dbroute"
)

// outbox is the jobs that are committed and that the queue does not have yet.
//
// A row is written in the application's transaction and deleted once the queue has
// the job, so that nothing is lost in between, whatever dies. It may be relayed more
// than once: by two processes at a time, or again after a crash that came before the
// deletion. The queue drops what it has, since a job is unique by its outbox id, and
// so the relays of several processes need not know of each other.
//
// The process that commits a row relays it at once, from memory. What is left over is
// found by polling.
type outbox struct {
	db     *dbroute.Cluster
	client *river.Client[pgx.Tx]
	name   string
	log    *slog.Logger

	committed chan outboxRow
	trouble   atomic.Pointer[error] // why what was relayed last is still here; nil if it is not
}

// outboxRow is one job in the outbox.
type outboxRow struct {
	id     string // random: a sequence begins anew when a database does, and the queue remembers
	queue  string // its name
	kind   string
	args   []byte
	runAt  sql.NullTime
	commit dbroute.CommitID // zero if it is not known

	createdAt time.Time // zero if it was not polled
}

const (
	pollInterval  = time.Second
	batchSize     = 100
	insertTimeout = 5 * time.Second
)

func newOutbox(cfg Config, client *river.Client[pgx.Tx]) *outbox {
	return &outbox{
		db: cfg.Cluster, client: client, name: cfg.Name, log: cfg.Log,
		committed: make(chan outboxRow, batchSize),
	}
}

// add puts a job into the outbox. It is due at runAt, or at once if that is zero.
func (o *outbox) add(ctx context.Context, tx *dbroute.Tx, args river.JobArgs, runAt time.Time) error {
	row := outboxRow{
		id: rand.Text(), queue: o.name, kind: args.Kind(),
		runAt: sql.NullTime{Time: runAt, Valid: !runAt.IsZero()},
	}
	var err error
	if row.args, err = json.Marshal(args); err != nil {
		return fmt.Errorf("jobs: enqueue %s: %w", row.kind, err)
	}
	switch {
	case bytes.Contains(row.args, []byte(`\u0000`)):
		return fmt.Errorf("jobs: enqueue %s: the queue cannot store a NUL", row.kind)
	case row.args[0] != '{': // the encoder has left out what may stand before
		return fmt.Errorf("jobs: enqueue %s: the arguments are no JSON object", row.kind)
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO job_outbox (id, queue_name, kind, args, run_at) VALUES (?, ?, ?, ?, ?)`,
		row.id, row.queue, row.kind, string(row.args), row.runAt); err != nil {
		return fmt.Errorf("jobs: enqueue %s: %w", row.kind, err)
	}
	tx.AfterCommit(func(_ context.Context, m dbroute.Marker) {
		row.commit = m.Commit
		select {
		case o.committed <- row:
		default: // polling finds it
		}
	})
	return nil
}

// relay relays until ctx ends.
func (o *outbox) relay(ctx context.Context) {
	poll := time.NewTimer(0)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case row := <-o.committed:
			if o.trouble.Load() == nil {
				o.report(ctx, o.deliver(ctx, o.more(row)))
			} // else polling tries it when its turn comes
		case <-poll.C:
			o.report(ctx, o.deliverLeftOver(ctx))
			poll.Reset(pollInterval)
		}
	}
}

// more returns row and what else has been committed by now.
func (o *outbox) more(row outboxRow) []outboxRow {
	rows := []outboxRow{row}
	for len(rows) < batchSize {
		select {
		case row := <-o.committed:
			rows = append(rows, row)
		default:
			return rows
		}
	}
	return rows
}

// report logs when trouble begins, becomes another, and ends.
func (o *outbox) report(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	var trouble *error
	if err != nil {
		trouble = &err
	}
	switch before := o.trouble.Swap(trouble); {
	case err == nil && before != nil:
		o.log.InfoContext(ctx, "the outbox is relayed again")
	case err != nil && (before == nil || errors.Is(err, errRefused) != errors.Is(*before, errRefused)):
		o.log.WarnContext(ctx, "the outbox keeps the jobs until they can be relayed", "error", err)
	}
}

// deliverLeftOver delivers all rows, whoever wrote them, the oldest first. What the
// queue refuses does not hold up what is behind it.
func (o *outbox) deliverLeftOver(ctx context.Context) error {
	last := outboxRow{createdAt: time.Unix(0, 0)}
	var refusal error
	for {
		rows, err := o.oldest(ctx, last)
		if err != nil || len(rows) == 0 {
			return cmp.Or(err, refusal)
		}
		// What is committed by now is covered by the primary's position from now on.
		position, err := lastCommitID(ctx, o.db)
		if err != nil {
			return err
		}
		for i := range rows {
			rows[i].commit = position
		}
		if err := o.deliver(ctx, rows); errors.Is(err, errRefused) {
			refusal = err
		} else if err != nil {
			return err
		}
		last = rows[len(rows)-1]
	}
}

// oldest returns the oldest rows of those behind one.
func (o *outbox) oldest(ctx context.Context, behind outboxRow) (rows []outboxRow, err error) {
	err = o.db.Read(dbroute.UsePrimary(ctx), "jobs.Outbox", func(q dbroute.Querier) error {
		rows = nil
		found, err := q.QueryContext(ctx, `
			SELECT id, queue_name, kind, args, run_at, created_at
			  FROM job_outbox
			 WHERE created_at > ? OR created_at = ? AND id > ?
			 ORDER BY created_at, id
			 LIMIT ?`, behind.createdAt, behind.createdAt, behind.id, batchSize)
		if err != nil {
			return err
		}
		defer found.Close()
		for found.Next() {
			var row outboxRow
			if err := found.Scan(&row.id, &row.queue, &row.kind, &row.args, &row.runAt, &row.createdAt); err != nil {
				return err
			}
			rows = append(rows, row)
		}
		return found.Err()
	})
	return rows, err
}

// outboxState is what is in the outbox.
type outboxState struct {
	Jobs  int
	Since time.Time // when the oldest was queued
}

func (o *outbox) state(ctx context.Context) (s outboxState, err error) {
	err = o.db.Read(ctx, "jobs.OutboxState", func(q dbroute.Querier) error {
		var since sql.NullTime
		err := q.QueryRowContext(ctx, `SELECT count(*), min(created_at) FROM job_outbox`).Scan(&s.Jobs, &since)
		s.Since = since.Time
		return err
	})
	return s, err
}

var (
	// errNotQueued tells trouble with the queue from trouble with the outbox.
	errNotQueued = errors.New("not queued")
	// errRefused is trouble with one job. It stays in the outbox and is tried at each
	// poll, until a version runs that can relay it, or somebody takes it out.
	errRefused = errors.New("refused by the queue")
)

// deliver gives jobs to the queue, and deletes the rows only then. It is errRefused if
// the queue does not take one of them, and has all that it takes.
func (o *outbox) deliver(ctx context.Context, rows []outboxRow) error {
	err := o.insert(ctx, rows)
	switch {
	case err == nil:
		return o.delete(ctx, rows)
	case !isRefusal(err):
		return fmt.Errorf("jobs: relay: %w: %w", errNotQueued, err)
	case len(rows) == 1:
		return fmt.Errorf("jobs: relay %s of kind %s: %w: %w", rows[0].id, rows[0].kind, errRefused, err)
	}
	half := len(rows) / 2
	first := o.deliver(ctx, rows[:half])
	if first != nil && !errors.Is(first, errRefused) {
		return first
	}
	return cmp.Or(o.deliver(ctx, rows[half:]), first)
}

// insert gives the queue all of the jobs, or none.
func (o *outbox) insert(ctx context.Context, rows []outboxRow) error {
	var inserts []river.InsertManyParams
	for _, row := range rows {
		inserts = append(inserts, row.insert())
	}
	ctx, cancel := context.WithTimeout(ctx, insertTimeout)
	defer cancel()
	_, err := o.client.InsertMany(ctx, inserts)
	return err
}

// isRefusal reports whether jobs were not inserted for what they are: one cannot be
// encoded, or PostgreSQL does not store it.
func isRefusal(err error) bool {
	var encoding *json.MarshalerError
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return errors.As(err, &encoding)
	}
	class := fmt.Sprintf("%.2s", refused.Code)
	return class == "22" || class == "23" || class == "54" // the data, a constraint, a limit
}

func (o *outbox) delete(ctx context.Context, rows []outboxRow) error {
	return o.db.Touch(ctx, "jobs.Relayed", func(ctx context.Context, tx *dbroute.Tx) error {
		for _, row := range rows {
			if _, err := tx.ExecContext(ctx, `DELETE FROM job_outbox WHERE id = ?`, row.id); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r outboxRow) insert() river.InsertManyParams {
	opts := &river.InsertOpts{
		Queue: r.queue,
		// In every state, or a relay that comes late would repeat a job that was
		// cancelled or discarded.
		UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: rivertype.JobStates()},
	}
	if time.Until(r.runAt.Time) > 0 {
		opts.ScheduledAt = r.runAt.Time
	}
	if !r.commit.IsZero() {
		opts.Metadata, _ = json.Marshal(map[string]string{commitKey: r.commit.String()}) // strings can be
	}
	return river.InsertManyParams{Args: relayed{r.id, r}, InsertOpts: opts}
}

// relayed is a job's arguments with its outbox id, by which alone River tells whether
// it has the job: see the tag.
type relayed struct {
	OutboxID string `json:"outbox_id" river:"unique"`
	row      outboxRow
}

// Kind is the job's.
func (r relayed) Kind() string { return r.row.kind }

// MarshalJSON adds the outbox id to the job's arguments.
func (r relayed) MarshalJSON() ([]byte, error) {
	var args map[string]any
	decoder := json.NewDecoder(bytes.NewReader(r.row.args))
	decoder.UseNumber() // an id must come out as it went in
	if err := decoder.Decode(&args); err != nil {
		return nil, err
	}
	if args == nil {
		return nil, errors.New("the arguments are null")
	}
	args["outbox_id"] = r.OutboxID
	return json.Marshal(args)
}
