package stack

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// configure writes, next to the configuration, the statements that make the server
// a replica. It runs them whenever it starts, before it lets anybody in.
func (m *mysqlFamily) configure(s *Server, r replication) error {
	if err := m.account.writeFile(filepath.Join(s.dir, replicationFile), m.startReplication(r)); err != nil {
		return err
	}
	return m.account.writeFile(filepath.Join(s.dir, configFile), m.settings(s, r))
}

func (m *mysqlFamily) settings(s *Server, r replication) string {
	var conf strings.Builder
	conf.WriteString("[mysqld]\n")
	set := func(name, value string) {
		fmt.Fprintf(&conf, "%s = \"%s\"\n", name, strings.ReplaceAll(value, `\`, `\\`))
	}
	set("server_id", strconv.Itoa(s.id))
	set("datadir", filepath.Join(s.dir, dataDir))
	set("tmpdir", filepath.Join(s.dir, tmpDir))
	set("init_file", filepath.Join(s.dir, replicationFile))

	set("bind_address", "127.0.0.1")
	set("port", strconv.Itoa(s.port))
	set("socket", "socket") // in datadir; a whole path may be too long for one
	set("skip_name_resolve", "ON")
	set("max_connections", "100")

	// Nothing here has to survive a crash of the machine. What survives a kill is
	// what the kernel has, so a commit must get that far.
	set("innodb_flush_log_at_trx_commit", "2")
	set("innodb_flush_method", "nosync")
	set("innodb_doublewrite", "OFF")
	set("sync_binlog", "0")

	set("innodb_buffer_pool_size", "32M")
	set("innodb_log_buffer_size", "2M")
	set("innodb_use_native_aio", "OFF") // the kernel has few for all servers together
	set("performance_schema", "OFF")

	set("log_bin", "binlog")
	set("relay_log", "relay")
	set("relay_log_recovery", "ON") // a killed replica has files that may end anywhere

	set("character_set_server", "utf8mb4")
	set("default_time_zone", "+00:00")
	set("transaction_isolation", "READ-COMMITTED") // PostgreSQL's default
	for _, own := range m.ownSettings {
		set(own.name, own.value)
	}
	if r.source != nil {
		set(m.readOnlySetting, "ON")
	}
	for _, name := range slices.Sorted(maps.Keys(s.stack.settings)) {
		if value := s.stack.settings[name]; value != "" {
			set(name, value)
		} else {
			conf.WriteString(name + "\n")
		}
	}
	return conf.String()
}

// startReplication returns the statements that make a server follow its source, if
// it has one. What a replica had received and not applied it fetches again.
func (m *mysqlFamily) startReplication(r replication) string {
	if r.source == nil {
		return ""
	}
	return m.changeSource(r) + ";\nSTART REPLICA;\n"
}

// changeSource returns the statement that makes a replica follow another source.
func (m *mysqlFamily) changeSource(r replication) string {
	return m.change(
		"HOST = '127.0.0.1'",
		"PORT = "+strconv.Itoa(r.source.port),
		"USER = '"+adminUser+"'",
		"PASSWORD = '"+m.adminPassword+"'",
		"CONNECT_RETRY = 1", // a replica is back soon after its primary
		delayOption(r.delay),
	) + ", " + m.byGTID
}

// changeDelay returns the statement that changes the delay alone.
func (m *mysqlFamily) changeDelay(r replication) string { return m.change(delayOption(r.delay)) }

// applyFrom returns the statement that lets a replica go on to apply its files, with
// no delay and for the last time.
func (m *mysqlFamily) applyFrom(st replicaStatus) string {
	return m.change(delayOption(0)) + ", " + m.byFile +
		", RELAY_LOG_FILE = '" + st.relayFile + "', RELAY_LOG_POS = " + st.relayPos
}

func (m *mysqlFamily) change(options ...string) string {
	return m.changeStatement + " " + m.optionPrefix + strings.Join(options, ", "+m.optionPrefix)
}

func delayOption(d time.Duration) string { return "DELAY = " + strconv.Itoa(int(d/time.Second)) }
