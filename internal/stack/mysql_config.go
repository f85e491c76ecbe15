package stack

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// configure also writes the statements that make the server a replica. It runs
// them whenever it starts, before it lets anybody in.
func (m *mysql) configure(s *Server, r replication) error {
	if err := m.account.writeFile(filepath.Join(s.dir, mysqlReplication), m.replicate(r)); err != nil {
		return err
	}
	return m.account.writeFile(filepath.Join(s.dir, mysqlConfig), m.config(s, r))
}

func (m *mysql) config(s *Server, r replication) string {
	var conf strings.Builder
	conf.WriteString("[mysqld]\n")
	set := func(name, value string) {
		fmt.Fprintf(&conf, "%s = \"%s\"\n", name, strings.ReplaceAll(value, `\`, `\\`))
	}
	set("server_id", strconv.Itoa(s.id))
	set("datadir", filepath.Join(s.dir, dataDir))
	set("tmpdir", filepath.Join(s.dir, tmpDir))
	set("init_file", filepath.Join(s.dir, mysqlReplication))

	set("bind_address", "127.0.0.1")
	set("port", strconv.Itoa(s.port))
	set("socket", "socket") // in datadir: a whole path may be too long for one
	set("skip_name_resolve", "ON")
	set("max_connections", "100")

	// Nothing here has to survive a crash of the machine. A commit reaches the
	// operating system, so it does survive a kill.
	set("innodb_flush_method", "nosync")
	set("innodb_flush_log_at_trx_commit", "2")
	set("innodb_doublewrite", "OFF")
	set("sync_binlog", "0")

	set("innodb_buffer_pool_size", "32M")
	set("innodb_log_buffer_size", "1M")
	set("innodb_use_native_aio", "OFF") // the kernel has a limit for all servers together
	set("performance_schema", "OFF")
	set("table_open_cache", "400")

	set("log_bin", "binlog")
	set("relay_log", "relay")
	set("relay_log_recovery", "ON") // what a killed replica had received may be torn
	set("skip_slave_start", "ON")   // init_file starts it

	set("character_set_server", "utf8mb4")
	set("default_time_zone", "+00:00")
	set("transaction_isolation", "READ-COMMITTED") // as PostgreSQL
	for _, s := range m.settings {
		set(s[0], s[1])
	}
	if r.source != nil {
		set("read_only", "ON")
	}
	return conf.String()
}

// replicate returns the statements that make a server follow its source, if it has
// one. What a replica has received and not applied it fetches again.
func (m *mysql) replicate(r replication) string {
	if r.source == nil {
		return ""
	}
	return m.follow(r) + ";\nSTART REPLICA;\n"
}

func (m *mysql) follow(r replication) string {
	options := fmt.Sprintf("*HOST = '127.0.0.1', *PORT = %d, *USER = '%s', *PASSWORD = '%s', *CONNECT_RETRY = 1, ",
		r.source.port, adminUser, m.adminPassword)
	return m.changeSource + " " + strings.ReplaceAll(options, "*", m.sourcePrefix) + m.sourceOptions + ", " + m.delay(r)
}

// delay is counted in whole seconds.
func (m *mysql) delay(r replication) string {
	return fmt.Sprintf("%sDELAY = %d", m.sourcePrefix, r.delay/time.Second)
}
