package site

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"time"

	"freshread/internal/auth"
	"freshread/internal/cache"
	"freshread/internal/dbroute"
	"freshread/internal/posts"
)

//go:embed seed.json
var seedJSON []byte

type seed struct {
	People []struct {
		Name, Email, Bio string
		Role             auth.Role
	}
	Posts []struct {
		Author, Title, Body string
		HoursAgo            float64 `json:"hours_ago"`
		Comments            []struct {
			Author, Body string
			HoursAgo     float64 `json:"hours_ago"`
		}
	}
}

// demoPassword opens every account of the seed.
const demoPassword = "out of the blue"

func readSeed() (s seed, err error) {
	if err := json.Unmarshal(seedJSON, &s); err != nil {
		return seed{}, fmt.Errorf("seed: %w", err)
	}
	return s, nil
}

// demoAccounts are offered on the log-in page: two members and who is admin.
func demoAccounts() []auth.DemoAccount {
	s, err := readSeed()
	if err != nil {
		return nil // Seed has failed by then
	}
	var accounts []auth.DemoAccount
	for i, p := range s.People {
		if i >= 2 && p.Role != auth.Admin {
			continue
		}
		accounts = append(accounts, auth.DemoAccount{Name: p.Name, Role: p.Role, Email: p.Email, Password: demoPassword})
	}
	return accounts
}

// Seed fills an empty database with people, posts and comments. It does nothing
// if there are people already.
func Seed(ctx context.Context, cluster *dbroute.Cluster) error {
	s, err := readSeed()
	if err != nil {
		return err
	}
	hash, err := auth.NewPasswords(auth.DefaultCost).Hash(ctx, demoPassword)
	if err != nil {
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
		if err := s.insert(ctx, tx, posts.NewStore(cluster, nil, nil), hash, time.Now()); err != nil {
			return err
		}
		return cache.Forget(ctx, tx, auth.CountKey, posts.CountsKey)
	})
}

func (s *seed) insert(ctx context.Context, tx *dbroute.Tx, store *posts.Store, hash string, now time.Time) error {
	ago := func(hours float64) time.Time {
		return now.Add(-time.Duration(hours * float64(time.Hour))).Truncate(time.Second)
	}
	ids := map[string]int64{} // of people, by address
	for _, p := range s.People {
		id, err := tx.InsertID(ctx, `INSERT INTO users (name, email, bio, role, password_hash) VALUES (?, ?, ?, ?, ?)`,
			p.Name, p.Email, p.Bio, p.Role, hash)
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
		if err := summarise(ctx, store, id); err != nil {
			return fmt.Errorf("summary of %q: %w", p.Title, err)
		}
	}
	return nil
}

func summarise(ctx context.Context, store *posts.Store, id int64) error {
	source, err := store.Source(ctx, id)
	if err != nil {
		return err
	}
	_, err = store.SaveSummary(ctx, source.Summary())
	return err
}
