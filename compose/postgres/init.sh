#!/usr/bin/env bash
# Runs once, in the image's initialisation, on a server that nobody else can reach yet.
# A standby gets a copy of what this makes.
set -euo pipefail

sql() { psql --username=postgres --dbname=postgres --set=ON_ERROR_STOP=1 "$@"; }

sql --set=password="$APP_PASSWORD" <<'EOF_SQL'
CREATE ROLE app LOGIN PASSWORD :'password';
GRANT pg_read_all_stats TO app;
EOF_SQL
for database in $DATABASES; do
  # Sorted by code point, with all letters known, whatever the image's locale is.
  sql --set=database="$database" <<'EOF_SQL'
CREATE DATABASE :"database" OWNER app TEMPLATE template0
  ENCODING 'UTF8' LOCALE 'C' LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8';
EOF_SQL
done
if [[ -n ${REPLICATION_PASSWORD:-} ]]; then
  # The slot keeps what a stopped standby has not received, from its first connection
  # on and as far as max_slot_wal_keep_size.
  sql --set=password="$REPLICATION_PASSWORD" <<'EOF_SQL'
CREATE ROLE replicator LOGIN REPLICATION PASSWORD :'password';
SELECT pg_create_physical_replication_slot('replica');
EOF_SQL
  # The image lets everybody connect to "all" databases, which leaves this one out.
  echo 'host replication replicator all scram-sha-256' >>"$PGDATA/pg_hba.conf"
fi
touch /var/lib/postgresql/initialised
