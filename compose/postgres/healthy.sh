#!/usr/bin/env bash
# Tells whether the server answers and, if it is a standby, receives. Over TCP, since
# the server of the initialisation listens on a socket only.
set -euo pipefail

pg_isready --quiet --host=127.0.0.1 --username=app --dbname=postgres
if [[ -n ${SOURCE_HOST:-} ]]; then
  streaming=$(psql --username=postgres --no-align --tuples-only --command="
    SELECT pg_is_in_recovery() AND EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming')")
  [[ $streaming == t ]]
fi
