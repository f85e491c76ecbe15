#!/usr/bin/env bash
# Starts a PostgreSQL server through the image's own entrypoint.
#   SERVER_ID     what pages show, and different for each server
#   SOURCE_HOST   the primary to follow; this server is a primary if it is not set
set -euo pipefail

settings=(
  -c app.server_id="$SERVER_ID"
  -c timezone=UTC
  # What a stopped standby still needs may not fill the disk.
  -c max_slot_wal_keep_size=4GB
)
if [[ -n ${SOURCE_HOST:-} ]]; then
  settings+=(
    -c recovery_min_apply_delay="${REPLICATION_DELAY}s"
    -c wal_receiver_status_interval=1s
    -c wal_retrieve_retry_interval=1s # it is back soon after its primary
  )
fi

volume=/var/lib/postgresql # PGDATA is a folder in it that the image names by its version
if [[ ! -e $volume/initialised ]]; then
  # Empty, or what was left by an initialisation that was interrupted: the image would
  # take it for a finished database.
  find "$volume" -mindepth 1 -delete
  if [[ -z ${SOURCE_HOST:-} ]]; then
    ln -sf /compose/init.sh /docker-entrypoint-initdb.d/init.sh
  else
    # A standby begins as a copy of its primary. The copy says how to follow it.
    install -d -m 700 -o postgres "$(dirname "$PGDATA")" "$PGDATA"
    PGPASSWORD=$REPLICATION_PASSWORD gosu postgres pg_basebackup \
      --host="$SOURCE_HOST" --username=replicator --pgdata="$PGDATA" \
      --slot=replica --checkpoint=fast --write-recovery-conf
    touch "$volume/initialised"
  fi
fi
exec docker-entrypoint.sh postgres "${settings[@]}" "$@"
