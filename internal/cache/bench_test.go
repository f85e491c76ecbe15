package cache_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"freshread/internal/cache"
	"freshread/internal/dbroute"
	"freshread/internal/stack/stacktest"
)

// Each operation is beside the statement that it consists of, sent by database/sql
// alone.

func benchmark(b *testing.B, run func(b *testing.B, p *process)) {
	for _, engine := range stacktest.Engines() {
		b.Run(engine, func(b *testing.B) {
			stacktest.Only(b, engine)
			run(b, newData(b, stacktest.Pair(b, engine)).process())
		})
	}
}

func BenchmarkCachedRead(b *testing.B) {
	benchmark(b, func(b *testing.B, p *process) {
		ctx := context.Background()
		for b.Loop() {
			if _, err := cache.Remember(ctx, p.cache, number, time.Hour, readNumber); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkCachedReadBare(b *testing.B) {
	benchmark(b, func(b *testing.B, p *process) {
		ctx := context.Background()
		statement := bare(p, cache.FindSQL(p.cluster.Engine()))
		for b.Loop() {
			rows, err := p.cluster.PrimaryDB().QueryContext(ctx, statement, number)
			if err != nil {
				b.Fatal(err)
			}
			for rows.Next() {
			}
			rows.Close()
		}
	})
}

func BenchmarkHit(b *testing.B) {
	benchmark(b, func(b *testing.B, p *process) {
		l := p.limiter("bench", cache.Limit{Hits: 1_000_000, Per: time.Hour})
		for b.Loop() {
			if err := l.Hit(context.Background(), "me"); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkHitBare(b *testing.B) {
	benchmark(b, func(b *testing.B, p *process) {
		statement := bare(p, cache.HitSQL(p.cluster.Engine()))
		for b.Loop() {
			if _, err := p.cluster.PrimaryDB().Exec(statement, "bare", 1, 1, 1, 1); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// bare writes the placeholders as the engine has them.
func bare(p *process, statement string) string {
	if p.cluster.Engine() != dbroute.PostgreSQL {
		return statement
	}
	for n := 1; strings.Contains(statement, "?"); n++ {
		statement = strings.Replace(statement, "?", "$"+string(rune('0'+n)), 1)
	}
	return statement
}
