#!/usr/bin/env bash
# Prints the statement that makes a server a replica. By GTID, a replica asks for
# whatever it lacks, from the very first transaction on.
cat <<EOF_SQL
CHANGE MASTER TO MASTER_HOST = '$SOURCE_HOST', MASTER_USER = 'replicator', MASTER_PASSWORD = '$REPLICATION_PASSWORD', MASTER_USE_GTID = slave_pos, MASTER_DELAY = $REPLICATION_DELAY, MASTER_CONNECT_RETRY = 1;
EOF_SQL
