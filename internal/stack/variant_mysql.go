package stack

import (
	"context"
	"path/filepath"
)

func newMySQL(ctx context.Context) (*mysql, error) {
	found, err := findMySQL(ctx)
	if err != nil {
		return nil, err
	}
	return newMySQLLike(variant{
		scheme: "mysql",
		number: found.version,
		server: found.server,
		initialize: func(config string) (string, []string) {
			return found.server, []string{
				"--defaults-file=" + config,
				"--initialize-insecure",
				"--init-file=" + filepath.Join(filepath.Dir(config), "users.sql"),
				"--gtid-mode=OFF",
				"--skip-log-bin",
			}
		},
		settings: [][2]string{
			{"gtid_mode", "ON"},
			{"enforce_gtid_consistency", "ON"},
			{"collation_server", "utf8mb4_0900_bin"}, // sorts by code point and knows trailing blanks
			{"mysqlx", "OFF"},
			{"secure_file_priv", "NULL"}, // reads and writes no files for anybody
			{"auto_generate_certs", "OFF"},
			{"innodb_redo_log_capacity", "32M"},
			{"replica_parallel_workers", "1"},
		},
		monitor:        "REPLICATION CLIENT",
		changeSource:   "CHANGE REPLICATION SOURCE TO",
		sourcePrefix:   "SOURCE_",
		sourceOptions:  "SOURCE_SSL = 0, SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1, SOURCE_RETRY_COUNT = 0",
		statusPrefix:   "Replica_",
		committedQuery: "SELECT @@GLOBAL.gtid_executed",
		appliedQuery:   "SELECT GTID_SUBSET(?, @@GLOBAL.gtid_executed)",
	})
}
