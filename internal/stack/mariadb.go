package stack

import "context"

func newMariaDB(ctx context.Context) (*mysqlFamily, error) {
	programs, err := findMariaDB(ctx)
	if err != nil {
		return nil, err
	}
	return newMySQLFamily(variant{
		name:     "mariadb",
		programs: programs,

		initializeArgs: []string{
			"--auth-root-authentication-method=normal",
			"--skip-name-resolve",
			"--skip-test-db",
			"--extra-file=" + usersFile,
			"--skip-log-bin",
		},
		// Users can be created only after the server has been told to look at users.
		removeUsers:      []string{"DELETE FROM mysql.global_priv WHERE user = 'root'", "DELETE FROM mysql.proxies_priv", "FLUSH PRIVILEGES"},
		monitorPrivilege: "SLAVE MONITOR",

		ownSettings: []setting{
			{"gtid_strict_mode", "ON"},
			{"binlog_format", "ROW"},
			{"log_slave_updates", "ON"},
			{"skip_slave_start", "ON"},                // init_file starts it
			{"master_retry_count", "0"},               // it never gives up
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
		stopForDelay:    "STOP REPLICA",

		sourceColumn:   "Master_",
		replicaColumn:  "Slave_",
		receivedColumn: "Gtid_IO_Pos",

		committedQuery: "SELECT @@GLOBAL.gtid_binlog_pos",
		reachedQuery:   "SELECT MASTER_GTID_WAIT(?, 0) = 0",
	})
}
