package torture

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"freshread/internal/auth"
	"freshread/internal/cache"
	"freshread/internal/dbroute"
	"freshread/internal/site"
	"freshread/internal/tokens"
	"freshread/internal/web"
)

// without takes a header out of requests.
func without(header string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del(header)
			next.ServeHTTP(w, r)
		})
	}
}

// withoutMarkers takes the markers out of the cookies of requests.
func withoutMarkers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cookies := r.Cookies()
		r.Header.Del("Cookie")
		for _, c := range cookies {
			if !strings.HasPrefix(c.Name, "marker.") {
				r.AddCookie(c)
			}
		}
		next.ServeHTTP(w, r)
	})
}

type discard struct{ header http.Header }

func (d discard) Header() http.Header       { return d.header }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

// forgetful does as if nobody had written.
type forgetful struct{ *dbroute.Cluster }

func (f *forgetful) Write(ctx context.Context, name string, fn func(context.Context, *dbroute.Tx) error) error {
	user := auth.Current(ctx).ID
	if err := f.Cluster.Write(ctx, name, fn); err != nil || dbroute.InTx(ctx) || user == 0 {
		return err
	}
	return f.Touch(context.WithoutCancel(ctx), "forget", func(ctx context.Context, tx *dbroute.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE users SET writes = 0, covered = 0 WHERE id = ?`, user)
		return err
	})
}

type replicaTokens struct{ *dbroute.Cluster }

func (r replicaTokens) Read(ctx context.Context, name string, fn func(dbroute.Querier) error) error {
	if name == tokens.WithOwner && isBroken() {
		return sql.ErrNoRows
	}
	return r.Cluster.Read(ctx, name, fn)
}

// scattered reads posts on the primary, and what belongs to them where the page reads.
type scattered struct{ *dbroute.Cluster }

func (s scattered) Read(ctx context.Context, name string, fn func(dbroute.Querier) error) error {
	if name == "posts.ByID" {
		ctx = dbroute.UsePrimary(ctx)
	}
	return s.Cluster.Read(ctx, name, fn)
}

// anyReplica reads a replica, also for who asks for the primary.
type anyReplica struct{ *dbroute.Cluster }

func (r anyReplica) Read(_ context.Context, name string, fn func(dbroute.Querier) error) error {
	ctx, scope := r.NewScope(context.Background())
	scope.RouteAnywhere(dbroute.Marker{})
	return r.Cluster.Read(ctx, name, fn)
}

type pinned struct{ *dbroute.Cluster }

func (p pinned) Read(ctx context.Context, name string, fn func(dbroute.Querier) error) error {
	return p.Cluster.Read(dbroute.UsePrimary(ctx), name, fn)
}

// proud fails where a read would run again on the primary.
type proud struct{ *dbroute.Cluster }

func (p proud) Read(ctx context.Context, name string, fn func(dbroute.Querier) error) error {
	err := p.Cluster.Read(ctx, name, fn)
	if scope := p.Scope(ctx); err == nil && scope != nil {
		if all := scope.Accesses(); len(all) > 0 && all[len(all)-1].Reason == dbroute.ReplicaFailed {
			return dbroute.ErrPrimaryUnavailable
		}
	}
	return err
}

// onReplica counts on the primary, and decides by what a replica has been told of that.
type onReplica struct {
	*cache.Limiter
	cluster *dbroute.Cluster
}

func (l onReplica) Hit(ctx context.Context, subject string) error {
	sum := sha256.Sum256([]byte(subject))
	var freeAt int64
	err := anyReplica{l.cluster}.Read(ctx, "limit", func(q dbroute.Querier) error {
		return q.QueryRowContext(ctx, `SELECT coalesce(max(free_at), 0) FROM rate_limits WHERE name = ?`,
			l.Name()+":"+hex.EncodeToString(sum[:])).Scan(&freeAt)
	})
	limit := l.Limit()
	if over := time.Until(time.UnixMicro(freeAt)) - limit.Per + limit.Per/time.Duration(limit.Hits); err == nil && over > 0 {
		return &cache.LimitedError{Limit: l.Name(), After: over}
	}
	if err := l.Limiter.Hit(ctx, subject); !errors.As(err, new(*cache.LimitedError)) {
		return err
	}
	return nil
}

// limitedByReplica counts one of the limits so.
func limitedByReplica(name string) func(*site.Config) {
	return func(cfg *site.Config) {
		cfg.Limiter = func(l *cache.Limiter) web.Limiter {
			if l.Name() != name {
				return l
			}
			return onReplica{l, cfg.Cluster}
		}
	}
}

// slowOnce holds up a page, once, for longer than any page may take.
func slowOnce(next http.Handler) http.Handler {
	var slept atomic.Bool
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/posts/") && !slept.Swap(true) {
			time.Sleep(readBound + time.Second)
		}
		next.ServeHTTP(w, r)
	})
}

// refusesWhatItSaves says of some edits that they were not done.
func refusesWhatItSaves(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && rand.N(4) == 0 {
			next.ServeHTTP(discard{http.Header{}}, r)
			w.WriteHeader(http.StatusConflict)
			return
		}
		next.ServeHTTP(w, r)
	})
}
