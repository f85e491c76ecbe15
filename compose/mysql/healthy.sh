#!/usr/bin/env bash
# Tells whether the server answers and, if it is a replica, receives and applies.
# Over TCP, since the server of the initialisation listens on a socket only.
set -euo pipefail

query='SELECT NOT @@GLOBAL.read_only'
if [[ -n ${SOURCE_HOST:-} ]]; then
  query="SELECT @@GLOBAL.super_read_only AND count(*) = 2 FROM (
           SELECT service_state FROM performance_schema.replication_connection_status UNION ALL
           SELECT service_state FROM performance_schema.replication_applier_status) AS threads
          WHERE service_state = 'ON'"
fi
answer=$(MYSQL_PWD=$MYSQL_ROOT_PASSWORD mysql --host=127.0.0.1 --user=root --skip-column-names --execute="$query")
[[ $answer == 1 ]]
