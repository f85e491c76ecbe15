package growth

import (
	"context"

	"freshread/bench/memory"
	"freshread/internal/dbroute"
)

// requests makes requests of one read each, which carry markers in turn.
func requests(cluster *dbroute.Cluster, markers []dbroute.Marker) repeat {
	next := 0
	return func(ctx context.Context, n int) error {
		for range n {
			if err := request(ctx, cluster, markers[next]); err != nil {
				return err
			}
			if next++; next == len(markers) {
				next = 0
			}
		}
		return nil
	}
}

func request(ctx context.Context, cluster *dbroute.Cluster, m dbroute.Marker) error {
	ctx, scope := cluster.NewScope(ctx)
	scope.RouteByCommit(ctx, m)
	err := cluster.Read(ctx, "posts.ByID", func(q dbroute.Querier) error {
		var id int64
		var title string
		return q.QueryRowContext(ctx, `SELECT id, title FROM posts WHERE id = ?`, 1).Scan(&id, &title)
	})
	scope.Outcome()
	return err
}

// open opens a cluster in memory whose replicas are known to be where the primary is.
func open(ctx context.Context, engine dbroute.Engine, replicas int, position string) (*memory.Cluster, error) {
	cluster, err := memory.Open(engine, replicas, position)
	if err != nil {
		return nil, err
	}
	return cluster, cluster.Settle(ctx)
}

// markerOf is the marker of a commit.
func markerOf(cluster *memory.Cluster, text string) (dbroute.Marker, error) {
	id, err := cluster.ParseCommitID(text)
	return dbroute.Marker{Commit: id}, err
}
