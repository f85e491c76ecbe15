package stack_test

import (
	"database/sql"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"freshread/internal/stack"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
)

// dialect is how a test asks the servers of an engine.
type dialect struct {
	database                string // is always there
	user, serverID, version string // queries, about the connection
	portTaken               string // in the log of a server that fails to start
}

var mysqlDialect = dialect{
	database:  "information_schema",
	user:      "SELECT substring_index(current_user(), '@', 1)",
	serverID:  "SELECT @@server_id",
	version:   "SELECT substring_index(version(), '-', 1)",
	portTaken: "Bind on TCP/IP port",
}

// dialects are named by the scheme of a server's URL.
var dialects = map[string]dialect{
	"postgres": {
		database:  "postgres",
		user:      "SELECT current_user::text",
		serverID:  "SELECT current_setting('app.server_id')::int",
		version:   "SELECT split_part(current_setting('server_version'), ' ', 1)",
		portTaken: "could not create any TCP/IP sockets",
	},
	"mysql":   mysqlDialect,
	"mariadb": mysqlDialect,
}

func dialectOf(s *stack.Server) dialect { return dialects[scheme(s)] }

func scheme(s *stack.Server) string {
	scheme, _, _ := strings.Cut(s.URL(""), ":")
	return scheme
}

// openURL opens a database of a server by its URL.
func openURL(t *testing.T, rawURL string) *sql.DB {
	t.Helper()
	open := openMySQL
	if strings.HasPrefix(rawURL, "postgres:") {
		open = func(rawURL string) (*sql.DB, error) { return sql.Open("pgx", rawURL) }
	}
	db, err := open(rawURL)
	must(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

func openMySQL(rawURL string) (*sql.DB, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, err
	}
	config := mysql.NewConfig()
	config.User = u.User.Username()
	config.Passwd, _ = u.User.Password()
	config.Net, config.Addr = "tcp", u.Host
	config.DBName = strings.TrimPrefix(u.Path, "/")
	config.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

func connect(t *testing.T, rawURL string) *sql.Conn {
	t.Helper()
	conn, err := openURL(t, rawURL).Conn(soon(t))
	must(t, err)
	return conn
}

func execute(t *testing.T, rawURL, query string, args ...any) {
	t.Helper()
	db := openURL(t, rawURL)
	_, err := db.ExecContext(soon(t), query, args...)
	must(t, err)
	must(t, db.Close())
}

// value returns the one value that a query finds.
func value[T any](t *testing.T, rawURL, query string, args ...any) T {
	t.Helper()
	db := openURL(t, rawURL)
	var v T
	must(t, db.QueryRowContext(soon(t), query, args...).Scan(&v))
	must(t, db.Close())
	return v
}

func wantValue[T comparable](t *testing.T, rawURL, query string, want T) {
	t.Helper()
	if got := value[T](t, rawURL, query); got != want {
		t.Errorf("%s: %v, want %v", query, got, want)
	}
}

// status returns what a replica of the MySQL family says that it is doing.
func status(t *testing.T, s *stack.Server) map[string]string {
	t.Helper()
	db := openURL(t, s.AdminURL(""))
	rows, err := db.QueryContext(soon(t), "SHOW REPLICA STATUS")
	must(t, err)
	names, err := rows.Columns()
	must(t, err)
	values := make([]sql.NullString, len(names))
	into := make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	if !rows.Next() {
		t.Fatal("no replica")
	}
	must(t, rows.Scan(into...))
	must(t, db.Close())
	found := make(map[string]string)
	for i, name := range names {
		found[name] = values[i].String
	}
	return found
}

func wantDelay(t *testing.T, s *stack.Server, want time.Duration) {
	t.Helper()
	var got time.Duration
	if scheme(s) == "postgres" {
		got = time.Duration(value[int](t, s.URL("postgres"),
			"SELECT setting::int FROM pg_settings WHERE name = 'recovery_min_apply_delay'")) * time.Millisecond
	} else {
		seconds, err := strconv.Atoi(status(t, s)["SQL_Delay"])
		must(t, err)
		got = time.Duration(seconds) * time.Second
	}
	if got != want {
		t.Errorf("server %d has a delay of %s, want %s", s.ID(), got, want)
	}
}

// createNotes creates a database with a table, by which a test sees which commits
// a server has applied, and waits until all replicas have it. The notes of an
// earlier test go.
func createNotes(t *testing.T, s *stack.Stack) {
	t.Helper()
	must(t, s.DropDatabase(soon(t), "notes"))
	must(t, s.CreateDatabase(soon(t), "notes"))
	execute(t, s.Primary().URL("notes"), "CREATE TABLE notes (id int PRIMARY KEY, note varchar(100))")
	must(t, s.WaitApplied(soon(t)))
}

func addNote(t *testing.T, primary *stack.Server, note string) {
	t.Helper()
	execute(t, primary.URL("notes"), "INSERT INTO notes SELECT count(*), '"+note+"' FROM notes")
}

// notes returns the notes that a server has, with a space between.
func notes(t *testing.T, s *stack.Server) string {
	t.Helper()
	db := openURL(t, s.URL("notes"))
	rows, err := db.QueryContext(soon(t), "SELECT note FROM notes ORDER BY id")
	must(t, err)
	var all []string
	for rows.Next() {
		var note string
		must(t, rows.Scan(&note))
		all = append(all, note)
	}
	must(t, rows.Err())
	must(t, db.Close())
	return strings.Join(all, " ")
}

// awaitReceived waits until a replica has received all that the primary has
// written. What it does not apply from then on, it holds back.
func awaitReceived(t *testing.T, primary, replica *stack.Server) {
	t.Helper()
	eventually(t, "the replica has received everything", func() bool {
		switch scheme(primary) {
		case "mysql":
			// What it has applied it may have forgotten to have received.
			return value[bool](t, primary.URL(""), "SELECT gtid_subset(gtid_subtract(@@GLOBAL.gtid_executed, ?), ?)",
				status(t, replica)["Executed_Gtid_Set"], status(t, replica)["Retrieved_Gtid_Set"])
		case "mariadb":
			return value[string](t, primary.URL(""), "SELECT @@GLOBAL.gtid_binlog_pos") == status(t, replica)["Gtid_IO_Pos"]
		}
		return value[bool](t, replica.AdminURL("postgres"),
			"SELECT coalesce(pg_last_wal_receive_lsn() >= $1::text::pg_lsn, false)",
			value[string](t, primary.AdminURL("postgres"), "SELECT pg_current_wal_flush_lsn()::text"))
	})
}

func wantNotes(t *testing.T, s *stack.Server, want string) {
	t.Helper()
	if got := notes(t, s); got != want {
		t.Errorf("server %d has the notes %q, want %q", s.ID(), got, want)
	}
}
