#!/usr/bin/env bash
# Prints the statement that makes a server a replica. By GTID, a replica asks for
# whatever it lacks, from the very first transaction on.
cat <<EOF_SQL
CHANGE REPLICATION SOURCE TO SOURCE_HOST = '$SOURCE_HOST', SOURCE_USER = 'replicator', SOURCE_PASSWORD = '$REPLICATION_PASSWORD', SOURCE_AUTO_POSITION = 1, SOURCE_DELAY = $REPLICATION_DELAY, SOURCE_CONNECT_RETRY = 1, SOURCE_RETRY_COUNT = 0, GET_SOURCE_PUBLIC_KEY = 1;
EOF_SQL
