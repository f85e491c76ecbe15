package stack

import (
	"context"
	"path/filepath"
)

func newMariaDB(ctx context.Context) (*mysql, error) {
	found, err := findMariaDB(ctx)
	if err != nil {
		return nil, err
	}
	return newMySQLLike(variant{
		scheme: "mariadb",
		number: found.version,
		server: found.server,
		initialize: func(config string) (string, []string) {
			return found.initialize, []string{
				"--defaults-file=" + config,
				"--auth-root-authentication-method=normal",
				"--skip-test-db",
				"--skip-name-resolve", // no users for the name of this machine
				"--extra-file=" + filepath.Join(filepath.Dir(config), "users.sql"),
				"--skip-log-bin",
			}
		},
		settings: [][2]string{
			{"binlog_format", "ROW"},
			{"log_slave_updates", "ON"},
			{"gtid_strict_mode", "ON"},
			{"master_retry_count", "0"},               // never give up
			{"collation_server", "utf8mb4_nopad_bin"}, // sorts by code point and knows trailing blanks
			{"innodb_log_file_size", "16M"},
			{"aria_pagecache_buffer_size", "1M"},
			{"key_buffer_size", "1M"},
		},
		monitor:        "SLAVE MONITOR",
		changeSource:   "CHANGE MASTER TO",
		sourcePrefix:   "MASTER_",
		sourceOptions:  "MASTER_USE_GTID = slave_pos",
		statusPrefix:   "Slave_",
		committedQuery: "SELECT @@GLOBAL.gtid_binlog_pos",
		appliedQuery:   "SELECT MASTER_GTID_WAIT(?, 0) = 0",
	})
}
