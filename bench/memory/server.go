// Package memory is a driver of database/sql that answers from memory. What is
// measured on it is what lies above the driver: no network, no server, no noise of
// either.
package memory

import (
	"database/sql/driver"
	"fmt"
	"strings"
	"sync/atomic"

	"freshread/internal/dbroute"
)

// Server answers what package dbroute asks of a PostgreSQL or MySQL server, and
// every other query with one row: id 1 and a title.
type Server struct {
	Engine dbroute.Engine
	Role   dbroute.Role
	ID     int
	// Position is how far the server has got, in the engine's words: a WAL position,
	// or a set of GTIDs.
	Position string
	// Behind makes it say of every commit that it has not reached it.
	Behind atomic.Bool
	// Asked counts the questions whether it has reached a commit.
	Asked atomic.Int64
}

// answer is one row.
type answer struct {
	columns []string
	values  []driver.Value
}

var post = answer{[]string{"id", "title"}, []driver.Value{int64(1), "Q3 pricing update"}}

func (s *Server) answer(query string) answer {
	if !strings.Contains(query, "(") && !strings.Contains(query, "@@") {
		return post // quick, since this is what is measured
	}
	if s.Engine == dbroute.MySQL {
		return s.asMySQL(query)
	}
	return s.asPostgres(query)
}

func (s *Server) asPostgres(query string) answer {
	replica := s.Role == dbroute.Replica
	switch {
	case strings.Contains(query, "pg_postmaster_start_time"): // identify
		return row(replica, "started", fmt.Sprint(s.ID), false)
	case strings.Contains(query, "pg_walfile_name"): // position
		return row("000000010000000000000001", s.Position, int64(8192))
	case strings.Contains(query, "pg_last_wal_replay_lsn() >="): // reached
		s.Asked.Add(1)
		return row(!s.Behind.Load(), int64(1))
	case strings.Contains(query, "pg_last_wal_replay_lsn()"): // applied
		return row(replica, int64(1), s.Position)
	}
	return post
}

func (s *Server) asMySQL(query string) answer {
	readOnly := "0"
	if s.Role == dbroute.Replica {
		readOnly = "1"
	}
	switch {
	case strings.Contains(query, "version()"):
		return row("9.7.0")
	case strings.Contains(query, "@@server_id"): // identify
		return row(readOnly, fmt.Sprint(s.ID), "started", "")
	case strings.Contains(query, "gtid_owned"): // position
		return row("", s.Position, "", readOnly)
	case strings.Contains(query, "GTID_SUBSET"): // reached
		s.Asked.Add(1)
		return row(!s.Behind.Load())
	case strings.Contains(query, "gtid_executed"): // applied
		return row(s.Position, readOnly)
	}
	return post
}

func row(values ...driver.Value) answer {
	return answer{make([]string, len(values)), values}
}
