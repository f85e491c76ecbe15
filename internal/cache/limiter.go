package cache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"time"

	"freshread/internal/dbroute"
)

// Limiter keeps one limit, for each subject by itself: an address, an account.
// Any number of processes share it, since its state is a row of the primary, and
// its times are the database's.
//
// It is a leaky bucket, as the generic cell rate algorithm (GCRA) keeps it: free_at
// is when the subject has all its hits back. An allowed hit moves it on by one
// interval; a hit is allowed if that does not take it further than Per from now.
//
//   - A subject can have Hits at once and no more, whenever. A fixed window gives
//     twice that to whoever comes at its edge, and everything back at its end, for
//     which scripts wait. A sliding window without such edges needs the time of each
//     hit, or guesses.
//   - Its state is a row of fixed size, so that counting and deciding are one statement.
//   - When the next hit is allowed is exact, and a denied hit does not put it off:
//     who is told to come back in six seconds, and asks twice meanwhile, may come
//     back in six seconds.
//
// As with a fixed window, twice Hits may come within one Per: all at its beginning,
// and as many again, evenly, as they come back.
type Limiter struct {
	name             string
	limit            Limit
	cluster          *dbroute.Cluster
	hitSQL, usageSQL string
}

var limitName = regexp.MustCompile(`^[a-z-]{1,40}$`)

// NewLimiter returns a limiter on a cluster without replicas; see OpenCluster. The
// name tells limits apart: lower-case letters and hyphens.
func NewLimiter(cluster *dbroute.Cluster, name string, limit Limit) (*Limiter, error) {
	if !limitName.MatchString(name) {
		return nil, fmt.Errorf("limiter %q: want a name of lower-case letters and hyphens", name)
	}
	if err := limit.check(); err != nil {
		return nil, fmt.Errorf("limiter %s: %w", name, err)
	}
	if n := cluster.Replicas(); n > 0 {
		return nil, fmt.Errorf("limiter %s: cluster %s has %d replicas: want one that has none", name, cluster.Name(), n)
	}
	return &Limiter{
		name: name, limit: limit, cluster: cluster, hitSQL: hitSQL(cluster.Engine()),
		usageSQL: dialect(cluster.Engine(), `SELECT coalesce(max(free_at - {now}), 0) FROM rate_limits WHERE name = ? AND free_at > {now}`),
	}, nil
}

// hitSQL counts a hit and returns in how many microseconds it would be allowed; 0
// if it was. The row is locked from the first look at it to the commit, and the new
// free_at and the answer are made from the same old one. MySQL has no RETURNING:
// there the answer is what LAST_INSERT_ID has been given.
//
// Of hits that come at once, the one that has the row later may have begun earlier,
// with a time that lies before the other's. Its time is then that of the other, hit_at,
// or as many hits as are allowed would not all be.
//
// Assignments run from left to right on MySQL and MariaDB, so that each column comes
// after those that are made from it.
func hitSQL(e dbroute.Engine) string {
	at := `greatest({now}, rate_limits.hit_at)`
	retryIn := `greatest(rate_limits.free_at - ` + at + ` - ?, 0)`
	set := dbroute.PerEngine{Postgres: retryIn, MySQL: `LAST_INSERT_ID(` + retryIn + `)`, MariaDB: retryIn}
	returning := dbroute.PerEngine{Postgres: `RETURNING retry_in`, MariaDB: `RETURNING retry_in`}
	return dialect(e, `
		INSERT INTO rate_limits (name, free_at, hit_at, retry_in) VALUES (?, {now} + ?, {now}, 0)
		{or update}
			retry_in = `+set.For(e)+`,
			free_at = CASE WHEN rate_limits.free_at - `+at+` > ? THEN rate_limits.free_at
			               ELSE greatest(rate_limits.free_at, `+at+`) + ? END,
			hit_at = `+at+`
		`+returning.For(e))
}

// LimitedError is a hit that was not allowed.
type LimitedError struct {
	Limit string // its name
	After time.Duration
}

func (e *LimitedError) Error() string {
	return fmt.Sprintf("limit %s: allowed again in %v", e.Limit, e.After)
}

// RetryAfter is when the next hit will be allowed, if nobody else is faster.
func (e *LimitedError) RetryAfter() time.Duration { return e.After }

// Hit counts one hit of a subject, or returns a LimitedError. On any other error
// the hit may or may not have been counted, and must not be allowed.
func (l *Limiter) Hit(ctx context.Context, subject string) error {
	// A client that goes away takes back nothing.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.cluster.Config().CommitTimeout)
	defer cancel()
	var retryIn time.Duration
	var err error
	for range maxTries {
		if retryIn, err = l.hit(ctx, l.row(subject)); !errors.Is(err, dbroute.ErrContended) {
			break
		}
	}
	switch {
	case err != nil:
		return err
	case retryIn > 0:
		return &LimitedError{Limit: l.name, After: retryIn}
	}
	return nil
}

// maxTries is for InnoDB, where those who wait for the first hit of a subject are in
// each other's way if that is rolled back, since its process has died.
const maxTries = 5

func (l *Limiter) hit(ctx context.Context, row string) (retryIn time.Duration, err error) {
	interval, spare := l.limit.interval().Microseconds(), l.limit.spare().Microseconds()
	args := []any{row, interval, spare, spare, interval}
	var micros int64
	err = l.cluster.Touch(ctx, "limits."+l.name, func(ctx context.Context, tx *dbroute.Tx) error {
		if l.cluster.Engine() != dbroute.MySQL {
			return tx.QueryRowContext(ctx, l.hitSQL, args...).Scan(&micros)
		}
		result, err := tx.ExecContext(ctx, l.hitSQL, args...)
		if err == nil {
			micros, err = result.LastInsertId()
		}
		return err
	})
	return time.Duration(micros) * time.Microsecond, err
}

// Usage is how much of a limit a subject has used.
type Usage struct {
	Used   int           // hits that have yet to come back
	NextIn time.Duration // until one of them does; 0 if none is to come
	AllIn  time.Duration // until the last one does
}

// Usage looks, and counts nothing.
func (l *Limiter) Usage(ctx context.Context, subject string) (u Usage, err error) {
	var allIn int64 // in microseconds
	err = l.cluster.Read(ctx, "limits."+l.name, func(q dbroute.Querier) error {
		return q.QueryRowContext(ctx, l.usageSQL, l.row(subject)).Scan(&allIn)
	})
	if err != nil || allIn == 0 {
		return u, err
	}
	u.AllIn = time.Duration(allIn) * time.Microsecond
	u.Used = int((u.AllIn + l.limit.interval() - 1) / l.limit.interval())
	u.NextIn = u.AllIn - l.limit.interval()*time.Duration(u.Used-1)
	return u, nil
}

// Name and Limit are what the limiter was made with.
func (l *Limiter) Name() string { return l.name }
func (l *Limiter) Limit() Limit { return l.limit }

// row is the key of a subject's row. Subjects are hashed: what somebody typed may
// be long or no text, and who tried what need not be kept.
func (l *Limiter) row(subject string) string {
	sum := sha256.Sum256([]byte(subject))
	return l.name + ":" + hex.EncodeToString(sum[:])
}
