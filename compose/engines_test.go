package compose_test

import "strings"

// engine is how to ask a server what the site does not show.
type engine struct {
	data, ready                string   // a file that is there early in the initialisation, what is logged after it
	client                     []string // prints values alone, each row on a line
	serverID, delay, oneSecond string   // queries, and the answer for a delay of a second

	wantNoTransactionsOfItsOwn func(d *stack, s site, replica string)
}

var mysql = &engine{
	data:     "/var/lib/mysql/mysql",
	ready:    "port: 3306",
	client:   []string{"sh", "-c", `MYSQL_PWD=$MYSQL_ROOT_PASSWORD exec mysql --user=root --batch --skip-column-names freshread`},
	serverID: "SELECT @@server_id",
	delay:    "SELECT desired_delay FROM performance_schema.replication_applier_configuration", oneSecond: "1",

	// What it has, its primary has, and none of it is under its own name.
	wantNoTransactionsOfItsOwn: func(d *stack, s site, replica string) {
		d.t.Helper()
		executed := strings.ReplaceAll(d.ask(s, replica, "SELECT @@GLOBAL.gtid_executed"), `\n`, "")
		uuid := d.ask(s, replica, "SELECT @@server_uuid")
		primary := d.ask(s, s.servers[0], "SELECT @@server_uuid")
		if !strings.HasPrefix(executed, primary+":1-") || strings.Contains(executed, ",") || strings.Contains(executed, uuid) {
			d.t.Errorf("%s (%s) has executed %s, which is not all its primary's (%s)", replica, uuid, executed, primary)
		}
		if d.ask(s, s.servers[0], "SELECT GTID_SUBSET('"+executed+"', @@GLOBAL.gtid_executed)") != "1" {
			d.t.Errorf("%s has executed %s, which its primary has not", replica, executed)
		}
	},
}

var mariadb = &engine{
	data:     "/var/lib/mysql/mysql",
	ready:    "port: 3306",
	client:   []string{"sh", "-c", `MYSQL_PWD=$MARIADB_ROOT_PASSWORD exec mariadb --user=root --socket=/run/mysqld/mysqld.sock --batch --skip-column-names freshread`},
	serverID: "SELECT @@server_id",
	delay:    "SELECT sql_delay FROM information_schema.slave_status", oneSecond: "1",

	// A GTID is domain, server, sequence. The state has one for each server that has
	// ever written to this binary log.
	wantNoTransactionsOfItsOwn: func(d *stack, s site, replica string) {
		d.t.Helper()
		if state := d.ask(s, replica, "SELECT @@GLOBAL.gtid_binlog_state"); !strings.HasPrefix(state, "0-1-") || strings.Contains(state, ",") {
			d.t.Errorf("%s has %s in its binary log, which is not all its primary's", replica, state)
		}
	},
}

var postgres = &engine{
	data:     "/var/lib/postgresql/18/docker/PG_VERSION",
	ready:    "listening on IPv4 address",
	client:   []string{"psql", "--username=postgres", "--no-align", "--tuples-only", "freshread"},
	serverID: "SELECT current_setting('app.server_id')",
	delay:    "SELECT current_setting('recovery_min_apply_delay')", oneSecond: "1s",

	// A standby cannot write. It must be one, and a copy of this primary.
	wantNoTransactionsOfItsOwn: func(d *stack, s site, replica string) {
		d.t.Helper()
		const identity = "SELECT system_identifier, timeline_id FROM pg_control_system(), pg_control_checkpoint()"
		if got, want := d.ask(s, replica, identity), d.ask(s, s.servers[0], identity); got != want {
			d.t.Errorf("%s is %s, its primary %s", replica, got, want)
		}
		if d.ask(s, replica, "SELECT pg_is_in_recovery()") != "t" {
			d.t.Errorf("%s is not a standby", replica)
		}
	},
}
