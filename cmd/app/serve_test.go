package main

import (
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"freshread/internal/lab"
	"freshread/internal/stack"
	"freshread/internal/stack/stacktest"
)

const password = "hunter2"

// configured is the environment of a site on a database of the shared servers.
func configured(t *testing.T, engine string) (environment, *stack.Stack, string) {
	t.Helper()
	servers := stacktest.Pair(t, engine)
	database := stacktest.Database(t, servers)
	env := environment{
		"DATABASE_PRIMARY_URL":  servers.Primary().URL(database),
		"DATABASE_REPLICA_URLS": servers.Replicas()[0].URL(database),
		"SESSION_KEYS":          strings.Repeat("0123456789abcdef", 4),
		"SECURE_COOKIES":        "false",
		"SHOW_READS":            "true",
		"CHECK_TIMEOUT":         "5s", // of a busy machine
		"HEALTH_TIMEOUT":        "5s",
		"ADDR":                  "127.0.0.1:0",
	}
	if engine != "postgres" {
		env["QUEUE_DATABASE_URL"] = stacktest.DatabaseURL(t, stacktest.Queue(t))
	}
	return env, servers, database
}

// with returns a copy in which some variables have other values.
func (e environment) with(changes environment) environment {
	changed := environment{}
	for _, from := range []environment{e, changes} {
		for name, value := range from {
			changed[name] = value
		}
	}
	return changed
}

func (a *app) serving(t *testing.T) (addr string) {
	t.Helper()
	return a.says(t, &a.errOut, `"msg":"serving","addr":"([^"]+)"`)
}

// servingWithReplica is serving, once the replica is read too.
func (a *app) servingWithReplica(t *testing.T) (addr string) {
	t.Helper()
	addr = a.serving(t)
	a.readsReplica(t)
	return addr
}

// readsReplica returns once the replica is read.
func (a *app) readsReplica(t *testing.T) {
	t.Helper()
	a.says(t, &a.errOut, `"msg":"replica changes state".*"to":"(up)"`)
}

func TestServeRefusesASchemaThatIsNotUpToDate(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		env, _, _ := configured(t, engine)
		stdout, stderr := runs(t, env, 1, "serve")
		wantOneLine(t, stderr, "the schema is not up to date: run app migrate first")
		if stdout != "" {
			t.Errorf("stdout is %q", stdout)
		}

		// Also while a queue of its own is down, which alone would not keep it from serving.
		env["QUEUE_DATABASE_URL"] = "postgres://app@127.0.0.1:1/none"
		_, stderr = runs(t, env, 1, "serve")
		wantOneLine(t, stderr, "the schema is not up to date: run app migrate first")
	})
}

func TestMigrateThenServe(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		env, servers, _ := configured(t, engine)
		stdout, _ := runs(t, env, 0, "migrate")
		want := []string{"river 001: ", "river 006: "}
		files, err := os.ReadDir("../../migrations/postgres")
		stacktest.Must(t, err)
		for _, f := range files {
			want = append(want, f.Name())
		}
		for _, want := range want {
			if !strings.Contains(stdout, "applied "+want) {
				t.Errorf("migrate prints %q, want it to apply %s", stdout, want)
			}
		}
		if stdout, _ := runs(t, env, 0, "migrate"); stdout != "nothing to do\n" {
			t.Errorf("migrate prints %q a second time", stdout)
		}
		stacktest.Applied(t, servers)

		site := start(t, env, "serve")
		addr := site.servingWithReplica(t)
		resume := stacktest.Pause(t, servers)
		visitor := newBrowser(t, "http://"+addr).signUp(t)
		post := visitor.submit(t, "/posts/new", "First")
		if got, want := visitor.see(t, post), (seen{"First", "1", "commit not reached"}); got != want {
			t.Errorf("before the replica has applied it the page shows %+v, want %+v", got, want)
		}
		resume()
		stacktest.Applied(t, servers)
		if got, want := visitor.see(t, post), (seen{"First", "2", "commit reached"}); got != want {
			t.Errorf("once the replica has applied it the page shows %+v, want %+v", got, want)
		}

		const states = "server 1 (primary): up\nserver 2 (replica): up\n"
		if stdout, _ := runs(t, nil, 0, "healthcheck", "--addr", addr); stdout != states {
			t.Errorf("healthcheck prints %q, want %q", stdout, states)
		}
		if stdout, _ := runs(t, environment{"ADDR": addr}, 0, "healthcheck"); stdout != states {
			t.Errorf("healthcheck with ADDR prints %q, want %q", stdout, states)
		}

		_, stderr := runs(t, env.with(environment{"ADDR": addr}), 1, "serve")
		wantOneLine(t, lastLine(stderr), "ADDR: listen tcp "+addr)

		site.signal(t, syscall.SIGTERM)
		site.wantExit(t, 0)
		_, stderr = runs(t, nil, 1, "healthcheck", "--addr", addr)
		wantOneLine(t, stderr, "connection refused")
	})
}

// The app may run in any number of processes: what one has written, all know.
func TestMarkerCountsInEveryProcess(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		env, servers, _ := configured(t, engine)
		runs(t, env, 0, "migrate")
		stacktest.Applied(t, servers)
		first, second := start(t, env, "serve"), start(t, env, "serve")
		here, there := first.servingWithReplica(t), second.servingWithReplica(t)
		stacktest.Pause(t, servers)
		visitor := newBrowser(t, "http://"+here).signUp(t)
		post := visitor.submit(t, "/posts/new", "First")
		visitor.site = "http://" + there
		if got, want := visitor.see(t, post), (seen{"First", "1", "commit not reached"}); got != want {
			t.Errorf("the other process shows %+v, want %+v", got, want)
		}
	})
}

// So is what one has counted. No cookies, and a replica that sees nothing.
func TestLimitHoldsOverProcesses(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		env, servers, _ := configured(t, engine)
		runs(t, env, 0, "migrate")
		stacktest.Applied(t, servers)
		stacktest.Pause(t, servers)
		env = env.with(environment{"LIMIT_LOGIN_ADDRESS": "3/1m"})
		var sites []string
		for range 2 {
			sites = append(sites, "http://"+start(t, env, "serve").serving(t))
		}
		answers := map[int]int{}
		for i := range 16 {
			email := fmt.Sprintf("somebody%d@example.com", i)
			response, err := http.PostForm(sites[i%2]+"/login", url.Values{"email": {email}, "password": {"a guess"}})
			stacktest.Must(t, err)
			response.Body.Close()
			answers[response.StatusCode]++
		}
		if answers[http.StatusUnprocessableEntity] != 3 || answers[http.StatusTooManyRequests] != 13 {
			t.Errorf("of 16 log-ins against 3 the answers are %v", answers)
		}
	})
}

func TestMetricsHaveAnAddressOfTheirOwn(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		env, servers, _ := configured(t, engine)
		runs(t, env, 0, "migrate")
		stacktest.Applied(t, servers)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		stacktest.Must(t, err)
		metrics := listener.Addr().String()
		stacktest.Must(t, listener.Close())
		site := start(t, env.with(environment{"METRICS_ADDR": metrics}), "serve")
		addr := site.serving(t)

		eventually(t, "the metrics are served", func() bool {
			response, err := http.Get("http://" + metrics + "/metrics")
			if err != nil {
				return false
			}
			defer response.Body.Close()
			text, err := io.ReadAll(response.Body)
			return err == nil && strings.Contains(string(text), `freshread_server_up{cluster="main",role="replica",server="2"} 1`)
		})
		response, err := newBrowser(t, "http://"+addr).client.Get("http://" + addr + "/metrics")
		stacktest.Must(t, err)
		response.Body.Close()
		if got := response.Header.Get("Location"); got != "/login?next=%2Fmetrics" {
			t.Errorf("on the site's own address the metrics are answered with %s to %q", response.Status, got)
		}
		site.signal(t, syscall.SIGTERM)
		site.wantExit(t, 0)
	})
}

func TestMigrateSeedsAnEmptyDatabaseOnce(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		env, servers, database := configured(t, engine)
		count := func() (people, posts int) {
			primary := openPrimary(t, servers, database)
			stacktest.Must(t, primary.QueryRow(`SELECT (SELECT count(*) FROM users), (SELECT count(*) FROM posts)`).Scan(&people, &posts))
			return people, posts
		}
		runs(t, env, 0, "migrate")
		if people, posts := count(); people+posts > 0 {
			t.Errorf("without --seed there are %d people and %d posts", people, posts)
		}
		runs(t, env, 0, "migrate", "--seed")
		people, posts := count()
		if people == 0 || posts == 0 {
			t.Errorf("the seed has %d people and %d posts", people, posts)
		}
		runs(t, env, 0, "migrate", "--seed")
		if again, more := count(); again != people || more != posts {
			t.Errorf("a second seed makes %d people of %d, and %d posts of %d", again, people, more, posts)
		}
	})
}

func lastLine(text string) string {
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	return lines[len(lines)-1] + "\n"
}

func TestHealthcheckFailsWhileTheSiteIsNotReady(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	stacktest.Must(t, err)
	defer listener.Close()
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, r.URL.Path)
	}))
	stdout, stderr := runs(t, nil, 1, "healthcheck", "--addr", listener.Addr().String())
	wantOneLine(t, stderr, "503 Service Unavailable")
	if stdout != "/readyz\n" {
		t.Errorf("it prints %q", stdout)
	}
}

func TestRequestUnderWayIsFinishedAfterSIGTERM(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		env, servers, database := configured(t, engine)
		runs(t, env, 0, "migrate")
		site := start(t, env, "serve")
		addr := site.serving(t)
		visitor := newBrowser(t, "http://"+addr).signUp(t)
		post := visitor.submit(t, "/posts/new", "First")

		primary := openPrimary(t, servers, database)
		lock, err := primary.Begin()
		stacktest.Must(t, err)
		defer lock.Rollback()
		_, err = lock.Exec(`SELECT id FROM posts FOR UPDATE`)
		stacktest.Must(t, err)

		answer := make(chan string, 1)
		go func() {
			response, err := visitor.send(post, url.Values{"title": {"Second"}, "body": {"Text"}})
			if err != nil {
				answer <- err.Error()
				return
			}
			answer <- response.Status
		}()
		stacktest.LockAwaited(t, servers)
		site.signal(t, syscall.SIGTERM)
		eventually(t, "the site takes no more requests", func() bool {
			conn, err := net.Dial("tcp", addr)
			if err == nil {
				conn.Close()
			}
			return err != nil
		})
		stacktest.Must(t, lock.Rollback())
		if got, want := <-answer, "303 See Other"; got != want {
			t.Errorf("the save is answered with %q, want %q", got, want)
		}
		site.wantExit(t, 0)
		var title string
		stacktest.Must(t, primary.QueryRow(`SELECT title FROM posts`).Scan(&title))
		if title != "Second" {
			t.Errorf("the title is %q", title)
		}
	})
}

func openPrimary(t *testing.T, servers *stack.Stack, database string) *sql.DB {
	t.Helper()
	cluster, err := lab.OpenCluster(servers, database, slog.New(slog.DiscardHandler))
	stacktest.Must(t, err)
	t.Cleanup(func() { stacktest.Must(t, cluster.Close()) })
	return cluster.PrimaryDB()
}

func TestServeNamesTheVariableThatIsWrong(t *testing.T) {
	right := environment{
		"DATABASE_PRIMARY_URL": "postgres://app:" + password + "@127.0.0.1:1/freshread",
		"SESSION_KEYS":         strings.Repeat("0123456789abcdef", 4),
	}
	for _, c := range []struct{ name, value, want string }{
		{"DATABASE_PRIMARY_URL", "", "should not be empty"},
		{"DATABASE_PRIMARY_URL", "sqlite:///var/lib/app.db", "SQLite has no replicas"},
		{"DATABASE_PRIMARY_URL", "sqlserver://sa:" + password + "@db", "SQL Server tells a client no position"},
		{"DATABASE_PRIMARY_URL", "host=db password=" + password, "unsupported"},
		{"DATABASE_PRIMARY_URL", "postgres://app:" + password + "%zz@db/freshread", "not a URL"},
		{"DATABASE_PRIMARY_URL", "postgres://app:" + password + "@db:77777/freshread", "invalid port"},
		{"DATABASE_PRIMARY_URL", "postgres://db/freshread?sslmode=odd&password=" + password, "sslmode"},
		{"DATABASE_REPLICA_URLS", "postgres://app:" + password + "@db/freshread,sqlite://b", "open replica 2: unsupported database: SQLite"},
		{"DATABASE_REPLICA_URLS", "postgres://app:" + password + "@db/freshread,", "open replica 2"},
		{"CLUSTER_NAME", "The Cluster", "want lower-case letters"},
		{"DATABASE_MAX_OPEN_CONNS", "none", "invalid syntax"},
		{"DATABASE_MAX_OPEN_CONNS", "0", "want at least 1"},
		{"CHECK_TIMEOUT", "0s", "want more than 0"},
		{"COMMIT_TIMEOUT", "-1s", "want more than 0"},
		{"READ_STRATEGY", "maybe", "want commit, window or none"},
		{"CACHE_MAX_OPEN_CONNS", "0", "want at least 1"},
		{"CLUSTER_NAME", "cache", "cache is what the cache's own cluster is called"},
		{"LIMIT_LOGIN_ACCOUNT", "10", `"10": want hits and a time, as in 10/1m`},
		{"TRUSTED_PROXIES", "10.0.0.1", "no '/'"},
		{"READ_WINDOW", "soon", "invalid duration"},
		{"READ_WINDOW", "0s", "want more than 0"},
		{"QUEUE_DATABASE_URL", "mysql://app:" + password + "@db/queue", "want a URL that begins with postgres://"},
		{"QUEUE_DATABASE_URL", "postgres://app:" + password + "@db:x/queue", "invalid port"},
		{"JOB_WORKERS", "0", "want at least 1"},
		{"JOB_COMMIT_WAIT", "0s", "want more than 0"},
		{"JOB_READS", "summarise_post=sometimes", "want commit, primary or replica"},
		{"JOB_READS", "summarize_post=commit", "no kind of job"},
		{"SESSION_KEYS", "", "should not be empty"},
		{"SESSION_KEYS", password, "want at least 32 random bytes"},
		{"SESSION_KEYS", strings.Repeat("0123456789abcdef", 4) + ",0123", "key 2: want at least 32 random bytes"},
		{"SECURE_COOKIES", "perhaps", "invalid syntax"},
		{"DEMO", "perhaps", "invalid syntax"},
		{"SHOW_READS", "perhaps", "invalid syntax"},
		{"LOG_FORMAT", "xml", "want json or text"},
		{"LOG_LEVEL", "loud", "unknown name"},
	} {
		t.Run(c.name+"="+c.value, func(t *testing.T) {
			stdout, stderr := runs(t, right.with(environment{c.name: c.value}), 1, "serve")
			wantOneLine(t, stderr, c.name)
			wantOneLine(t, stderr, c.want)
			wantNoPassword(t, stdout+stderr)
		})
	}
}

func TestServeNamesWhatIsMissing(t *testing.T) {
	// worker and migrate set no cookies, so they need no keys.
	for command, names := range map[string][]string{
		"serve": {"DATABASE_PRIMARY_URL", "SESSION_KEYS"}, "worker": {"DATABASE_PRIMARY_URL"}, "migrate": {"DATABASE_PRIMARY_URL"},
	} {
		_, stderr := runs(t, nil, 1, command)
		for _, name := range names {
			if !strings.Contains(stderr, name) {
				t.Errorf("app %s says %q, not %s", command, stderr, name)
			}
		}
		_, stderr = runs(t, environment{"DATABASE_PRIMARY_URL": "mysql://app@localhost/app", "SESSION_KEYS": strings.Repeat("0123456789abcdef", 4)}, 1, command)
		wantOneLine(t, stderr, "QUEUE_DATABASE_URL: jobs: a queue beside mysql needs a PostgreSQL of its own")
	}
}

// On servers that nobody has prepared the site runs on the window, and says so.
func TestServeWithoutCommitIDs(t *testing.T) {
	for engine, settings := range map[string]map[string]string{
		"mysql":   {"skip-log-bin": "", "gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"},
		"mariadb": {"skip-log-bin": ""},
	} {
		t.Run(engine, func(t *testing.T) {
			stacktest.Only(t, engine)
			servers, err := stack.Start(stacktest.Context(t), stack.Options{Engine: engine, Settings: settings})
			stacktest.Must(t, err)
			t.Cleanup(func() { stacktest.Must(t, servers.Close()) })
			env := environment{
				"DATABASE_PRIMARY_URL":  stacktest.DatabaseURL(t, servers),
				"DATABASE_REPLICA_URLS": engine + "://app@127.0.0.1:1/none", // without a binary log there is none
				"QUEUE_DATABASE_URL":    stacktest.DatabaseURL(t, stacktest.Queue(t)),
				"SESSION_KEYS":          strings.Repeat("0123456789abcdef", 4),
				"SECURE_COOKIES":        "false",
				"DEMO":                  "true",
				"ADDR":                  "127.0.0.1:0",
			}
			runs(t, env, 0, "migrate")
			site := start(t, env, "serve")
			visitor := newBrowser(t, "http://"+site.serving(t)).signUp(t)
			visitor.submit(t, "/posts/new", "First")
			cluster := visitor.get(t, "/cluster")
			if got := cluster.Find("#cluster .problem").First().Text(); !strings.Contains(got, "log_bin is OFF") || !strings.Contains(got, "routed by the window") {
				t.Errorf("/cluster says %q", got)
			}
			if cluster.Find(`[name=strategy][value=commit]`).Length() > 0 {
				t.Error("the strategy commit is offered")
			}
			if stderr := site.errOut.String(); strings.Count(stderr, "there are no commit IDs") != 1 || strings.Contains(stderr, "not captured") {
				t.Errorf("it logs %s", stderr)
			}
		})
	}
}

func TestErrorsHideThePassword(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		env, servers, database := configured(t, engine)
		wrong := engine + "://app:" + password + "@" + servers.Primary().Addr() + "/" + database
		nobody := engine + "://app:" + password + "@127.0.0.1:1/" + database
		for _, primary := range []string{wrong, nobody} {
			for _, command := range []string{"serve", "migrate"} {
				stdout, stderr := runs(t, env.with(environment{"DATABASE_PRIMARY_URL": primary}), 1, command)
				if !strings.Contains(stderr, "check primary") {
					t.Errorf("app %s says %q", command, stderr)
				}
				wantNoPassword(t, stdout+stderr)
			}
		}

		// A replica that cannot be reached is logged.
		runs(t, env, 0, "migrate")
		site := start(t, env.with(environment{"DATABASE_REPLICA_URLS": nobody + "," + wrong}), "serve")
		site.serving(t)
		if got := strings.Count(site.errOut.String(), "replica cannot be reached"); got != 2 {
			t.Errorf("%d replicas cannot be reached, want 2", got)
		}
		site.signal(t, os.Interrupt)
		site.wantExit(t, 0)
		wantNoPassword(t, site.errOut.String())
	})
}

func wantNoPassword(t *testing.T, text string) {
	t.Helper()
	if strings.Contains(text, password) {
		t.Errorf("the password is in %q", text)
	}
}
