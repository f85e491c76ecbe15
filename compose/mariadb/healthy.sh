#!/usr/bin/env bash
# Tells whether the server answers and, if it is a replica, receives and applies.
# The image's script looks over TCP: the server of the initialisation listens on a
# socket only.
set -euo pipefail

healthcheck.sh --connect --innodb_initialized
if [[ -n ${SOURCE_HOST:-} ]]; then
  status=$(MYSQL_PWD=$MARIADB_ROOT_PASSWORD mariadb --user=root --socket=/run/mysqld/mysqld.sock --execute='SHOW REPLICA STATUS\G')
  [[ $status == *'Slave_IO_Running: Yes'* && $status == *'Slave_SQL_Running: Yes'* ]]
fi
