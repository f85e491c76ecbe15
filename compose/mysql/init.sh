#!/usr/bin/env bash
# Runs once per server, in the image's initialisation: after the image has made the
# database and its user, on a server that nobody else can reach yet.
set -euo pipefail

client() { MYSQL_PWD=$MYSQL_ROOT_PASSWORD mysql --user=root; }

client <<EOF_SQL
CREATE USER replicator IDENTIFIED BY '$REPLICATION_PASSWORD';
GRANT REPLICATION SLAVE ON *.* TO replicator;
EOF_SQL

# All servers begin with the same users and the same empty database, each by its own
# doing. Were that in their binary logs, a replica would have transactions that its
# primary has not, and would receive others that fail on what is there already.
client <<<'RESET BINARY LOGS AND GTIDS'

if [[ -n ${SOURCE_HOST:-} ]]; then
  # Both count from the next start on, at the end of the initialisation.
  { bash /compose/follow.sh; echo 'SET PERSIST_ONLY super_read_only = ON;'; } | client
fi
touch /var/lib/mysql/initialised
