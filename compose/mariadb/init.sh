#!/usr/bin/env bash
# Runs once per server, in the image's initialisation: after the image has made the
# database and its user, on a server that nobody else can reach yet.
set -euo pipefail

client() { MYSQL_PWD=$MARIADB_ROOT_PASSWORD mariadb --user=root --socket=/run/mysqld/mysqld.sock; }

client <<EOF_SQL
CREATE USER replicator IDENTIFIED BY '$REPLICATION_PASSWORD';
GRANT REPLICATION REPLICA ON *.* TO replicator;
EOF_SQL

# All servers begin with the same users and the same empty database, each by its own
# doing. Were that in their binary logs, a replica would have transactions that its
# primary has not, and would receive others that fail on what is there already.
client <<<'RESET MASTER'

if [[ -n ${SOURCE_HOST:-} ]]; then
  bash /compose/follow.sh | client # it begins with the next start, at the end of the initialisation
fi
touch /var/lib/mysql/initialised
