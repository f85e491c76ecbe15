package stack

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
)

// replicaStatus is how a replica says that it is doing.
type replicaStatus struct {
	sourcePort          int
	receiving, applying bool
	received            string // a position
	relayFile, relayPos string // where it goes on to apply
	receiveError        string // why it is not receiving, as long as it tries
}

// status asks a replica how it is doing. One that cannot apply what it has received
// is an error: nothing will come of waiting.
func (m *mysqlFamily) status(ctx context.Context, conn *sql.Conn) (replicaStatus, error) {
	row, err := queryRow(ctx, conn, "SHOW REPLICA STATUS")
	if errors.Is(err, sql.ErrNoRows) {
		return replicaStatus{}, errors.New("it is no replica")
	}
	if err != nil {
		return replicaStatus{}, err
	}
	if text := row["Last_SQL_Error"]; text != "" {
		return replicaStatus{}, fmt.Errorf("it cannot apply: %s", text)
	}
	port, err := strconv.Atoi(row[m.sourceColumn+"Port"])
	return replicaStatus{
		sourcePort:   port,
		receiving:    row[m.replicaColumn+"IO_Running"] == "Yes",
		applying:     row[m.replicaColumn+"SQL_Running"] == "Yes",
		received:     row[m.receivedColumn],
		relayFile:    row["Relay_Log_File"],
		relayPos:     row["Relay_Log_Pos"],
		receiveError: row["Last_IO_Error"],
	}, err
}

// queryRow returns a row by the names of its columns. There are dozens of them, and
// each version has others.
func queryRow(ctx context.Context, conn *sql.Conn, query string) (map[string]string, error) {
	rows, err := conn.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	if !rows.Next() {
		return nil, errors.Join(rows.Err(), sql.ErrNoRows)
	}
	values := make([]sql.NullString, len(names))
	into := make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	if err := rows.Scan(into...); err != nil {
		return nil, err
	}
	row := make(map[string]string, len(names))
	for i, name := range names {
		row[name] = values[i].String
	}
	return row, rows.Err()
}
