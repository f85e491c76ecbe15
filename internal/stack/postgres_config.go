package stack

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// postgresAccess says who may log in, and that it takes a password.
const postgresAccess = `host all all 127.0.0.1/32 scram-sha-256
host replication ` + adminRole + ` 127.0.0.1/32 scram-sha-256
`

// configure writes the configuration next to the data, not into it: a folder that
// belongs to the account is none for root to write in.
func (p *postgres) configure(s *Server, r replication) error {
	return p.account.writeFile(filepath.Join(s.dir, "postgresql.conf"), p.settings(s, r))
}

func (p *postgres) settings(s *Server, r replication) string {
	var conf strings.Builder
	set := func(name, value string) {
		fmt.Fprintf(&conf, "%s = '%s'\n", name, strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(value))
	}
	set("data_directory", filepath.Join(s.dir, dataDir))
	set("ident_file", filepath.Join(s.dir, dataDir, "pg_ident.conf"))
	set("cluster_name", processTitle(s.dir))
	set("app.server_id", strconv.Itoa(s.id))

	set("listen_addresses", "127.0.0.1")
	set("port", strconv.Itoa(s.port))
	set("unix_socket_directories", "") // a path may be too long for a socket
	set("max_connections", "100")

	// Nothing here has to survive a crash of the machine.
	set("fsync", "off")
	set("full_page_writes", "off")

	set("shared_buffers", "32MB")
	// As files these go with the folder, also when the server is killed.
	set("dynamic_shared_memory_type", "mmap")

	set("wal_level", "replica")
	set("max_wal_senders", "10")
	set("wal_keep_size", "256MB") // a stopped replica can catch up
	set("hot_standby", "on")
	set("hot_standby_feedback", "off")
	set("wal_receiver_status_interval", "1s")
	set("wal_retrieve_retry_interval", "200ms") // a replica is back soon after its primary

	set("timezone", "UTC")
	set("log_timezone", "UTC")
	set("lc_messages", "C")

	set("recovery_min_apply_delay", applyDelay(r))
	if r.source != nil {
		set("primary_conninfo", fmt.Sprintf("host=127.0.0.1 port=%d user=%s password=%s", r.source.port, adminRole, p.adminPassword))
	}
	for _, name := range slices.Sorted(maps.Keys(s.stack.settings)) {
		set(name, s.stack.settings[name])
	}
	return conf.String()
}

// applyDelay returns the delay in milliseconds, as the server counts it.
func applyDelay(r replication) string {
	if r.eager {
		return "0"
	}
	return strconv.FormatInt(r.delay.Milliseconds(), 10)
}
