package stack

import (
	"context"
	"path/filepath"
)

// oldestMariaDB is the oldest version that is still maintained.
const oldestMariaDB = "10.11"

func newMariaDB(ctx context.Context) (*mysqlFamily, error) {
	server, version, err := findMySQLFamily(ctx, "mariadb", "mariadbd", oldestMariaDB)
	if err != nil {
		return nil, err
	}
	return newMySQLFamily(variant{
		scheme:   "mariadb",
		programs: mysqlPrograms{server: server, initialize: mariaDBInitialize(server), version: version},

		initializeArgs: []string{
			"--auth-root-authentication-method=normal",
			"--skip-name-resolve",
			"--skip-test-db",
			"--extra-file=" + usersFile,
		},
		removeUsers: []string{
			"DELETE FROM mysql.global_priv WHERE user = 'root'",
			"DELETE FROM mysql.proxies_priv",
			"FLUSH PRIVILEGES", // the server refuses to create users before it looks at them
		},

		ownSettings: []setting{
			{"gtid_strict_mode", "ON"},
			{"binlog_format", "ROW"},
			{"log_slave_updates", "ON"},
			{"skip_slave_start", "ON"},  // init_file starts it
			{"master_retry_count", "0"}, // it never gives up
			// For so long a shutdown waits until a primary that hangs lets the replica in.
			{"slave_net_timeout", "5"},
			{"collation_server", "utf8mb4_nopad_bin"}, // by code point, and a space at the end counts
			{"innodb_log_file_size", "16M"},
			{"aria_pagecache_buffer_size", "1M"},
			{"key_buffer_size", "1M"},
		},
		readOnlySetting: "read_only",

		changeStatement: "CHANGE MASTER TO",
		optionPrefix:    "MASTER_",
		byGTID:          "MASTER_USE_GTID = slave_pos",
		byFile:          "MASTER_USE_GTID = no",
		// Only of a replica that is stopped. It forgets what it has received and not
		// applied, and fetches it again from its primary.
		stopForDelay: "STOP REPLICA",

		sourceColumn:   "Master_",
		replicaColumn:  "Slave_",
		receivedColumn: "Gtid_IO_Pos",

		committedQuery: "SELECT @@GLOBAL.gtid_binlog_pos",
		reachedQuery:   "SELECT MASTER_GTID_WAIT(?, 0) = 0",
	})
}

// mariaDBInitialize returns the program that makes data for a server. Packages that
// keep servers in a folder of their own have it among the programs for everybody.
func mariaDBInitialize(server string) string {
	const name = "mariadb-install-db"
	beside := filepath.Join(filepath.Dir(server), name)
	if isExecutable(beside) {
		return beside
	}
	return filepath.Join(filepath.Dir(filepath.Dir(server)), "bin", name)
}
