package stack_test

import (
	"testing"

	"freshread/internal/stack/stacktest"
)

// The app may do what it likes with its database, and on PostgreSQL see which timeline
// a replica follows.

func TestPrivilegesOnPostgres(t *testing.T) {
	t.Parallel()
	stacktest.Only(t, "postgres")
	s := start(t, "postgres")
	must(t, s.CreateDatabase(soon(t), "own"))
	url := s.Primary().URL("own")
	wantValue(t, url, "SELECT pg_get_userbyid(datdba)::text FROM pg_database WHERE datname = current_database()", "app")
	wantValue(t, url, "SELECT pg_has_role('pg_read_all_stats', 'member')", true)
	wantValue(t, url, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user", false)
	wantValue(t, url, "SELECT has_function_privilege('pg_wal_replay_pause()', 'execute')", false)
}

func TestPrivilegesOnMySQL(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"mysql", "mariadb"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			stacktest.Only(t, engine)
			s := start(t, engine)
			must(t, s.CreateDatabase(soon(t), "own_1"))
			url := s.Primary().URL("own_1")
			wantValue(t, url, "SELECT group_concat(privilege_type) FROM information_schema.user_privileges", "USAGE")
			wantValue(t, url, "SELECT group_concat(DISTINCT table_schema) FROM information_schema.schema_privileges", `own\_1`)
			wantValue(t, s.Primary().AdminURL("mysql"),
				"SELECT group_concat(user ORDER BY user) FROM user WHERE user NOT LIKE '%.%'", "admin,app")
		})
	}
}
