package cache

import (
	"strings"

	"freshread/internal/dbroute"
)

// now is the database's clock, in microseconds since 1970. All times come from
// there, since the clocks of processes differ. It is when the statement began, so
// that a statement has one time.
var now = dbroute.PerEngine{
	Postgres: `(extract(epoch FROM statement_timestamp()) * 1000000)::bigint`,
	MySQL:    `timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6))`,
	MariaDB:  `timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6))`,
}

// orUpdate makes an INSERT change the row of that name if there is one.
var orUpdate = dbroute.PerEngine{
	Postgres: `ON CONFLICT (name) DO UPDATE SET`,
	MySQL:    `ON DUPLICATE KEY UPDATE`,
	MariaDB:  `ON DUPLICATE KEY UPDATE`,
}

func dialect(e dbroute.Engine, statement string) string {
	return strings.NewReplacer("{now}", now.For(e), "{or update}", orUpdate.For(e)).Replace(statement)
}

func anys[T any](items []T) []any {
	args := make([]any, len(items))
	for i, item := range items {
		args[i] = item
	}
	return args
}
