#!/usr/bin/env bash
# Starts a MariaDB server through the image's own entrypoint.
#   SERVER_ID     what pages show, and different for each server
#   SOURCE_HOST   the primary to follow; this server is a primary if it is not set
set -euo pipefail

settings=(
  --server-id="$SERVER_ID"
  # Commit IDs are GTIDs.
  --log-bin=binlog
  --binlog-format=ROW
  --log-slave-updates=ON
  --gtid-strict-mode=ON
  # A replica that begins with nothing, at any time, finds all transactions here.
  --binlog-expire-logs-seconds=0
  # A container that is made anew has another host name, which the file would be named by.
  --relay-log=relay
  # What a replica had received and not applied when it was killed may be torn.
  --relay-log-recovery=ON
  --master-retry-count=0 # it never gives up
  --character-set-server=utf8mb4
  --collation-server=utf8mb4_nopad_bin # by code point, and a space at the end counts
  --skip-name-resolve
)
if [[ -n ${SOURCE_HOST:-} ]]; then
  settings+=(--read-only) # for all but root
fi

data=/var/lib/mysql
if [[ ! -e $data/initialised ]]; then
  # Empty, or what was left by an initialisation that was interrupted: the image would
  # take it for a finished database. It goes on with init.sh.
  find "$data" -mindepth 1 -delete
  ln -sf /compose/init.sh /docker-entrypoint-initdb.d/init.sh
elif [[ -n ${SOURCE_HOST:-} ]]; then
  # The delay may be another than at the last start.
  { bash /compose/follow.sh; echo 'START REPLICA;'; } | install -m 600 -o mysql /dev/stdin /tmp/follow.sql
  settings+=(--skip-slave-start --init-file=/tmp/follow.sql)
fi
exec docker-entrypoint.sh mariadbd "${settings[@]}" "$@"
