package stack

import "context"

// oldestMySQL is the oldest version that is still maintained.
const oldestMySQL = "8.4"

func newMySQL(ctx context.Context) (*mysqlFamily, error) {
	server, version, err := findMySQLFamily(ctx, "mysql", "mysqld", oldestMySQL)
	if err != nil {
		return nil, err
	}
	return newMySQLFamily(variant{
		scheme:   "mysql",
		programs: mysqlPrograms{server: server, initialize: server, version: version},

		initializeArgs: []string{
			"--initialize-insecure",
			"--init-file=../" + usersFile, // seen from the data
			"--skip-log-bin",
			"--gtid-mode=OFF",
		},
		removeUsers: []string{"DROP USER root@localhost"},

		ownSettings: []setting{
			{"gtid_mode", "ON"},
			{"enforce_gtid_consistency", "ON"},
			{"skip_replica_start", "ON"}, // init_file starts it
			{"replica_parallel_workers", "1"},
			{"collation_server", "utf8mb4_0900_bin"}, // by code point, and a space at the end counts
			{"innodb_redo_log_capacity", "32M"},
			{"secure_file_priv", "NULL"}, // SQL reads and writes no files
			{"mysqlx", "OFF"},
			{"auto_generate_certs", "OFF"},
		},
		readOnlySetting: "super_read_only",

		changeStatement: "CHANGE REPLICATION SOURCE TO",
		optionPrefix:    "SOURCE_",
		// Without TLS the replica has to ask for the key that encrypts its password.
		byGTID:       "SOURCE_AUTO_POSITION = 1, SOURCE_SSL = 0, GET_SOURCE_PUBLIC_KEY = 1, SOURCE_RETRY_COUNT = 0",
		byFile:       "SOURCE_AUTO_POSITION = 0",
		stopForDelay: "STOP REPLICA SQL_THREAD",

		sourceColumn:   "Source_",
		replicaColumn:  "Replica_",
		receivedColumn: "Retrieved_Gtid_Set",

		committedQuery: "SELECT @@GLOBAL.gtid_executed",
		reachedQuery:   "SELECT GTID_SUBSET(?, @@GLOBAL.gtid_executed)",
	})
}
