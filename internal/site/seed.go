package site

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"time"

	"freshread/internal/dbroute"
)

//go:embed seed.json
var seedJSON []byte

type seed struct {
	People []struct{ Name, Email, Bio string }
	Posts  []struct {
		Author, Title, Body string
		HoursAgo            float64 `json:"hours_ago"`
		Comments            []struct {
			Author, Body string
			HoursAgo     float64 `json:"hours_ago"`
		}
	}
}

// Seed fills an empty database with people, posts and comments. It does nothing
// if there are people already.
func Seed(ctx context.Context, cluster *dbroute.Cluster) error {
	var s seed
	if err := json.Unmarshal(seedJSON, &s); err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	return cluster.Write(ctx, "site.Seed", func(ctx context.Context, tx *dbroute.Tx) error {
		var people int
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM users`).Scan(&people); err != nil {
			return err
		}
		if people > 0 {
			return nil
		}
		return s.insert(ctx, tx, time.Now())
	})
}

func (s *seed) insert(ctx context.Context, tx *dbroute.Tx, now time.Time) error {
	ago := func(hours float64) time.Time {
		return now.Add(-time.Duration(hours * float64(time.Hour))).Truncate(time.Second)
	}
	ids := map[string]int64{} // of people, by address
	for _, p := range s.People {
		id, err := tx.InsertID(ctx, `INSERT INTO users (name, email, bio) VALUES (?, ?, ?)`, p.Name, p.Email, p.Bio)
		if err != nil {
			return fmt.Errorf("person %s: %w", p.Email, err)
		}
		ids[p.Email] = id
	}
	for _, p := range s.Posts {
		id, err := tx.InsertID(ctx, `INSERT INTO posts (author_id, title, body, created_at, updated_at) VALUES (?, ?, ?, ?, ?)`,
			ids[p.Author], p.Title, p.Body, ago(p.HoursAgo), ago(p.HoursAgo))
		if err != nil {
			return fmt.Errorf("post %q: %w", p.Title, err)
		}
		for _, c := range p.Comments {
			if _, err := tx.ExecContext(ctx, `INSERT INTO comments (post_id, author_id, body, created_at) VALUES (?, ?, ?, ?)`,
				id, ids[c.Author], c.Body, ago(c.HoursAgo)); err != nil {
				return fmt.Errorf("comment on %q: %w", p.Title, err)
			}
		}
	}
	return nil
}
