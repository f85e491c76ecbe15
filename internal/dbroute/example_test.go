package dbroute_test

import (
	"context"
	"fmt"
	"time"

	"freshread/internal/dbroute"
	"freshread/internal/stack"
)

// examplePair starts a primary and a replica with one post on them. It is not
// for copying: your servers run already.
func examplePair() (*stack.Stack, *dbroute.Cluster) {
	ctx := context.Background()
	servers, err := stack.Start(ctx, stack.Options{Engine: "postgres", Replicas: []time.Duration{0}})
	must(err)
	must(servers.CreateDatabase(ctx, "blog"))
	cluster, err := dbroute.Open(dbroute.Config{
		Name:         "main",
		Primary:      servers.Primary().URL("blog"),
		Replicas:     []string{servers.Replicas()[0].URL("blog")},
		CheckTimeout: 5 * time.Second,
	})
	must(err)
	must(cluster.Write(ctx, "example", func(ctx context.Context, tx *dbroute.Tx) error {
		if _, err := tx.ExecContext(ctx, `CREATE TABLE posts (id bigint PRIMARY KEY, title varchar(200))`); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO posts VALUES (1, 'Q3 pricing')`)
		return err
	}))
	must(servers.WaitApplied(ctx))
	return servers, cluster
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// One client saves a title and reads it back in its next request, while the
// replica has not applied the save yet.
func Example() {
	servers, cluster := examplePair()
	defer servers.Close()
	defer cluster.Close()

	show := func(ctx context.Context) {
		var title string
		must(cluster.Read(ctx, "posts.ByID", func(q dbroute.Querier) error {
			return q.QueryRowContext(ctx, `SELECT title FROM posts WHERE id = ?`, 1).Scan(&title)
		}))
		accesses := cluster.Scope(ctx).Accesses()
		last := accesses[len(accesses)-1]
		fmt.Printf("%s (server %d, %s: %s)\n", title, last.ServerID, last.Role, last.Reason)
	}
	must(servers.Replicas()[0].PauseApply(context.Background()))

	// The request that saves.
	ctx, scope := cluster.NewScope(context.Background())
	scope.RouteByCommit(ctx, dbroute.Marker{})
	must(cluster.Write(ctx, "posts.Update", func(ctx context.Context, tx *dbroute.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE posts SET title = ? WHERE id = ?`, "Q3 pricing update", 1)
		return err
	}))
	marker := scope.Outcome().Marker // to the client, and back

	// The client's next request.
	ctx, scope = cluster.NewScope(context.Background())
	scope.RouteByCommit(ctx, marker)
	show(ctx)

	// Somebody else's.
	ctx, scope = cluster.NewScope(context.Background())
	scope.RouteByCommit(ctx, dbroute.Marker{})
	show(ctx)

	// The client's again, once the replica has caught up.
	must(servers.Replicas()[0].ResumeApply(context.Background()))
	must(servers.WaitApplied(context.Background()))
	ctx, scope = cluster.NewScope(context.Background())
	scope.RouteByCommit(ctx, marker)
	show(ctx)

	// Output:
	// Q3 pricing update (server 1, primary: commit not reached)
	// Q3 pricing (server 2, replica: no pending commit)
	// Q3 pricing update (server 2, replica: commit reached)
}

// A service passes the commit ID of its write to another, which waits for its
// replica to have it.
func ExampleCluster_HasCommitID() {
	servers, cluster := examplePair()
	defer servers.Close()
	defer cluster.Close()

	// The one that writes.
	ctx, scope := cluster.NewScope(context.Background())
	scope.RouteByCommit(ctx, dbroute.Marker{})
	must(cluster.Write(ctx, "posts.Update", func(ctx context.Context, tx *dbroute.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE posts SET title = ? WHERE id = ?`, "Q3 pricing update", 1)
		return err
	}))
	id, err := cluster.LastCommitID(ctx)
	must(err)
	message := id.String()

	// The one that reads.
	received, err := cluster.ParseCommitID(message)
	must(err)
	ctx, scope = cluster.NewScope(context.Background())
	scope.RouteAnywhere(dbroute.Marker{})
	has, err := cluster.HasCommitID(ctx, received, 5*time.Second)
	must(err)
	fmt.Println("the replica has it:", has)

	// Output:
	// the replica has it: true
}
