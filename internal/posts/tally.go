package posts

import (
	"context"
	"fmt"
	"time"

	"freshread/internal/cache"
	"freshread/internal/dbroute"
)

// What is counted comes from the cache: the primary's numbers, of whichever server
// the rest of the page is. Each write forgets what it changes, so that whoever has
// written sees it counted on the next page.

// Tally is what lists show of a post that has to be counted.
type Tally struct {
	Comments int
	Minutes  int // to read it
}

// Counts are those of the front page.
type Counts struct{ Posts, Comments int }

// CountsKey is the cache entry of Counts.
const CountsKey = "posts.Counts"

func tallyKey(id int64) string { return fmt.Sprintf("posts.Tally:%d", id) }

// countLife bounds only what bypasses the store, such as SQL typed by hand.
const countLife = 10 * time.Minute

// Counts counts all posts and comments.
func (s *Store) Counts(ctx context.Context) (Counts, error) {
	return cache.Remember(ctx, s.cache, CountsKey, countLife, func(ctx context.Context, q dbroute.Querier) (n Counts, err error) {
		err = q.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM posts), (SELECT count(*) FROM comments)`).
			Scan(&n.Posts, &n.Comments)
		return n, err
	})
}

// addTallies completes a list. A post that the primary no longer has keeps a tally
// of nothing.
func (s *Store) addTallies(ctx context.Context, list []Listing) error {
	ids := map[string]int64{}
	var keys []string
	for _, p := range list {
		key := tallyKey(p.ID)
		ids[key], keys = p.ID, append(keys, key)
	}
	tallies, err := cache.RememberMany(ctx, s.cache, keys, countLife, func(ctx context.Context, q dbroute.Querier, missing []string) (map[string]Tally, error) {
		var missingIDs []any
		for _, key := range missing {
			missingIDs = append(missingIDs, ids[key])
		}
		return tally(ctx, q, missingIDs)
	})
	for i := range list {
		list[i].Tally = tallies[tallyKey(list[i].ID)]
	}
	return err
}

// charsPerMinute is about 200 words.
const charsPerMinute = 1100

func readingMinutes(chars int) int { return (chars + charsPerMinute - 1) / charsPerMinute }

func tally(ctx context.Context, q dbroute.Querier, ids []any) (map[string]Tally, error) {
	rows, err := q.QueryContext(ctx, fmt.Sprintf(`
		SELECT p.id, char_length(p.body), (SELECT count(*) FROM comments c WHERE c.post_id = p.id)
		  FROM posts p
		 WHERE p.id IN (%s)`, dbroute.Placeholders(len(ids))), ids...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	tallies := map[string]Tally{}
	for rows.Next() {
		var id int64
		var chars int
		var t Tally
		if err := rows.Scan(&id, &chars, &t.Comments); err != nil {
			return nil, err
		}
		t.Minutes = readingMinutes(chars)
		tallies[tallyKey(id)] = t
	}
	return tallies, rows.Err()
}
