package dbroute_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"freshread/internal/dbroute"
	"freshread/internal/stack/stacktest"
)

func TestOpenRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  dbroute.Config
		want string
	}{
		"SQLite":           {dbroute.Config{Name: "main", Primary: "sqlite:///var/lib/app.db"}, "SQLite has no replicas"},
		"SQLite by file":   {dbroute.Config{Name: "main", Primary: "file:app.db?mode=rw"}, "SQLite has no replicas"},
		"SQL Server":       {dbroute.Config{Name: "main", Primary: "sqlserver://sa:secret@db"}, "SQL Server tells a client no position"},
		"another scheme":   {dbroute.Config{Name: "main", Primary: "redis://cache"}, `scheme "redis"`},
		"no scheme":        {dbroute.Config{Name: "main", Primary: "localhost"}, `scheme ""`},
		"no URL":           {dbroute.Config{Name: "main", Primary: "postgres://a:secret@b:%zz"}, "not a URL"},
		"a mixed cluster":  {dbroute.Config{Name: "main", Primary: "postgres://a", Replicas: []string{"sqlite://b"}}, "SQLite"},
		"a bad port":       {dbroute.Config{Name: "main", Primary: "postgres://u:secret@a:70000"}, "parse URL"},
		"no name":          {dbroute.Config{Primary: "postgres://a"}, "cluster name"},
		"a name with dots": {dbroute.Config{Name: "a.b", Primary: "postgres://a"}, "cluster name"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, err := dbroute.Open(c.cfg)
			if err == nil {
				cluster.Close()
				t.Fatal("opened")
			}
			if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("error is %q, want %q in it and no password", err, c.want)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		ctx := stacktest.Context(t)
		stacktest.Must(t, e.Check(ctx))

		t.Run("the primary as a replica", func(t *testing.T) {
			cfg := e.config
			cfg.Replicas = []string{cfg.Primary}
			if err := openCluster(t, cfg).Check(ctx); err == nil || !strings.Contains(err.Error(), "is a primary, not a replica") {
				t.Errorf("got %v", err)
			}
		})
		t.Run("a replica as the primary", func(t *testing.T) {
			cfg := e.config
			cfg.Primary = cfg.Replicas[0]
			if err := openCluster(t, cfg).Check(ctx); err == nil || !strings.Contains(err.Error(), "is a replica, not a primary") {
				t.Errorf("got %v", err)
			}
		})
		t.Run("a replica that is not there", func(t *testing.T) {
			cfg := e.config
			cfg.Replicas = []string{e.scheme + "://app@127.0.0.1:1/none"}
			stacktest.Must(t, openCluster(t, cfg).Check(ctx))
		})
		t.Run("a primary that is not there", func(t *testing.T) {
			cfg := e.config
			cfg.Primary = e.scheme + "://app@127.0.0.1:1/none"
			c := openCluster(t, cfg)
			if err := c.Check(ctx); err == nil {
				t.Error("no error")
			}
			err := c.Write(ctx, "w", func(context.Context, *dbroute.Tx) error { return nil })
			if !errors.Is(err, dbroute.ErrPrimaryUnavailable) {
				t.Errorf("write: %v", err)
			}
			err = c.Read(ctx, "r", func(dbroute.Querier) error { return nil })
			if !errors.Is(err, dbroute.ErrPrimaryUnavailable) {
				t.Errorf("read: %v", err)
			}
		})
	})
}

// Without the privilege a role sees no timeline, and so nothing as reached.
func TestCheckNamesThePrivilegeToSeeTimelines(t *testing.T) {
	stacktest.Only(t, "postgres")
	e := newEnv(t, "postgres")
	admin := e.admin()
	_, err := admin.Exec(`CREATE ROLE "short sighted" LOGIN PASSWORD 'x'`)
	stacktest.Must(t, err)
	t.Cleanup(func() { admin.Exec(`DROP ROLE "short sighted"`) })
	e.applied()
	cfg := e.config
	cfg.Replicas = []string{withUser(t, cfg.Replicas[0], "short sighted", "x")}
	err = openCluster(t, cfg).Check(stacktest.Context(t))
	var lacks *dbroute.CapabilityError
	if !errors.As(err, &lacks) || !strings.Contains(err.Error(), `GRANT pg_read_all_stats TO "short sighted"`) {
		t.Errorf("got %v", err)
	}
}

func TestPingTellsEachServer(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		cfg := e.config
		cfg.Replicas = append(cfg.Replicas, e.scheme+"://app@127.0.0.1:1/none")
		got := openCluster(t, cfg).Ping(stacktest.Context(t))
		if len(got) != 3 || got[0].ID != 1 || got[1].ID != 2 || got[2].ID != 3 ||
			got[0].Err != nil || got[1].Err != nil || got[2].Err == nil ||
			got[0].Role != dbroute.Primary || got[1].Role != dbroute.Replica {
			t.Errorf("got %+v", got)
		}
	})
}

func databaseOf(t testing.TB, e *env) string {
	t.Helper()
	u, err := url.Parse(e.config.Primary)
	stacktest.Must(t, err)
	return strings.TrimPrefix(u.Path, "/")
}

func withUser(t *testing.T, rawURL, name, password string) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	stacktest.Must(t, err)
	u.User = url.UserPassword(name, password)
	return u.String()
}
