package dbroute_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sort"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"freshread/internal/dbroute"
	"freshread/internal/stack/stacktest"
)

// Eight clients write, and each reads what another has just written. A position
// that is captured after that read covers the row.
func TestPositionCoversWhatWasSeen(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		const clients, pauses, sample = 8, 10, 40
		e.exec(`CREATE TABLE counters (id integer PRIMARY KEY, n integer NOT NULL)`)
		for id := range clients {
			e.exec(`INSERT INTO counters VALUES (?, 0)`, id)
		}
		e.applied()
		type sight struct {
			id, n int
			after dbroute.CommitID
		}
		var mu sync.Mutex
		var sights []sight
		var done atomic.Bool
		var wg sync.WaitGroup
		for id := range clients {
			wg.Go(func() {
				for !done.Load() {
					ctx := stacktest.Context(t)
					e.exec(`UPDATE counters SET n = n + 1 WHERE id = ?`, id)
					other := (id + 1) % clients
					n := e.counter(ctx, other)
					after, err := e.LastCommitID(ctx)
					stacktest.Must(t, err)
					mu.Lock()
					sights = append(sights, sight{other, n, after})
					mu.Unlock()
				}
			})
		}
		stop := func() { done.Store(true); wg.Wait() }
		defer stop()

		onReplica := func() context.Context {
			ctx, scope := e.NewScope(stacktest.Context(t))
			scope.RouteAnywhere(dbroute.Marker{})
			return ctx
		}
		has := func(s sight) bool {
			has, err := e.HasCommitID(onReplica(), s.after, 0)
			stacktest.Must(t, err)
			return has
		}
		check := func() (reached int) {
			mu.Lock()
			all := sights
			sights = nil
			mu.Unlock()
			// The last that it has reached tell most: soon after it has what was seen there
			// in any case.
			end := sort.Search(len(all), func(i int) bool { return !has(all[i]) })
			for _, s := range all[max(0, end-sample):end] {
				if !has(s) {
					continue
				}
				reached++
				if n := e.counter(onReplica(), s.id); n < s.n {
					t.Errorf("%v is reached, and counter %d is %d, where %d was seen", s.after, s.id, n, s.n)
				}
			}
			return reached
		}
		// The replica is paused again and again, so that it is asked at many points, and
		// does not get past one between the two questions.
		replica := e.stack.Replicas()[0]
		defer replica.ResumeApply(context.Background())
		ctx := stacktest.Context(t)
		for n, reached := 0, 0; n < pauses || reached == 0; n++ {
			time.Sleep(5 * time.Millisecond)
			stacktest.Must(t, replica.PauseApply(ctx))
			reached += check()
			stacktest.Must(t, replica.ResumeApply(ctx))
		}
		stop()
		e.applied()
		check()
	})
}

// MySQL shows rows before it counts their GTID as executed. Here each transaction
// writes its own number into its row, so that who sees it can tell its GTID.
func TestPositionCoversWhatIsNotCountedYet(t *testing.T) {
	stacktest.Only(t, "mysql")
	e := newEnv(t, "mysql")
	const clients, rounds = 60, 40
	e.exec(`CREATE TABLE counters (id integer PRIMARY KEY, n bigint NOT NULL)`)
	for id := range clients {
		e.exec(`INSERT INTO counters VALUES (?, 0)`, id)
	}
	admin := e.admin()
	admin.SetMaxOpenConns(clients + 1)
	// Large groups: only when all commits of one are visible are their GTIDs counted.
	_, err := admin.Exec(`SET GLOBAL binlog_group_commit_sync_delay = 1000`)
	stacktest.Must(t, err)
	defer admin.Exec(`SET GLOBAL binlog_group_commit_sync_delay = 0`)
	var uuid string
	stacktest.Must(t, admin.QueryRow(`SELECT @@server_uuid`).Scan(&uuid))

	first := unusedNumber()
	var wg sync.WaitGroup
	var sights atomic.Int64
	for id := range clients {
		conn, err := admin.Conn(stacktest.Context(t))
		stacktest.Must(t, err)
		wg.Go(func() {
			defer conn.Close()
			ctx := stacktest.Context(t)
			for round := range rounds {
				number := first + round*clients + id
				for _, statement := range []string{
					fmt.Sprintf(`SET gtid_next = '%s:%d'`, uuid, number),
					fmt.Sprintf(`UPDATE counters SET n = %d WHERE id = %d`, number, id),
					`SET gtid_next = 'AUTOMATIC'`,
				} {
					_, err := conn.ExecContext(ctx, statement)
					stacktest.Must(t, err)
				}
			}
		})
		wg.Go(func() {
			ctx := stacktest.Context(t)
			for range rounds {
				n := e.counter(ctx, id)
				after, err := e.LastCommitID(ctx)
				stacktest.Must(t, err)
				if n == 0 {
					continue
				}
				sights.Add(1)
				if !dbroute.CoversGTID(after, fmt.Sprintf("%s:%d", uuid, n)) {
					t.Errorf("%d was seen, and a position captured afterwards does not cover it", n)
				}
			}
		})
	}
	wg.Wait()
	if sights.Load() == 0 {
		t.Error("nothing was seen of what was written")
	}
}

// The same state at its longest: a GTID is taken, and not counted before its commit.
func TestPositionCoversWhatIsOwned(t *testing.T) {
	stacktest.Only(t, "mysql")
	e := newEnv(t, "mysql")
	ctx := stacktest.Context(t)
	conn, err := e.admin().Conn(ctx)
	stacktest.Must(t, err)
	defer conn.Close()
	run := func(statement string) {
		t.Helper()
		_, err := conn.ExecContext(ctx, statement)
		stacktest.Must(t, err)
	}
	var uuid string
	stacktest.Must(t, conn.QueryRowContext(ctx, `SELECT @@server_uuid`).Scan(&uuid))
	gtid := fmt.Sprintf("%s:%d", uuid, unusedNumber())
	run(`SET gtid_next = '` + gtid + `'`)
	run(`BEGIN`)
	run(`UPDATE notes SET text = 'new' WHERE id = 1`)
	if n := count(t, e.PrimaryDB(), `SELECT GTID_SUBSET('`+gtid+`', @@GLOBAL.gtid_executed) OR @@GLOBAL.gtid_owned NOT LIKE '`+gtid+`#%'`); n != 0 {
		t.Fatalf("%s is not owned", gtid)
	}
	before, err := e.LastCommitID(ctx)
	stacktest.Must(t, err)
	resume := e.pause()
	run(`COMMIT`)
	run(`SET gtid_next = 'AUTOMATIC'`)

	if !dbroute.CoversGTID(before, gtid) {
		t.Errorf("%v does not cover %s", before, gtid)
	}
	request, _ := e.request(dbroute.Marker{Commit: before})
	e.want(request, "new", 1, dbroute.CommitNotReached)
	resume()
	e.applied()
	request, _ = e.request(dbroute.Marker{Commit: before})
	e.want(request, "new", 2, dbroute.CommitReached)
}

// unusedNumber is of no transaction, on servers that also earlier runs have used.
func unusedNumber() int { return int(time.Now().UnixMicro()) }

// counter reads where the scope in ctx does, on the primary without one.
func (e *env) counter(ctx context.Context, id int) (n int) {
	e.tb.Helper()
	stacktest.Must(e.tb, e.Read(ctx, "counters.N", func(q dbroute.Querier) error {
		return q.QueryRowContext(ctx, `SELECT n FROM counters WHERE id = ?`, id).Scan(&n)
	}))
	return n
}

// MySQL rolls a whole transaction back on a deadlock, and would commit what is
// sent after it statement by statement.
func TestNothingOfADeadlockedTransactionIsCommitted(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		e.exec(`INSERT INTO notes (text) VALUES ('second')`)
		var both sync.WaitGroup
		both.Add(2)
		careless := func(mine, other int) error {
			return e.Write(stacktest.Context(t), "w", func(ctx context.Context, tx *dbroute.Tx) error {
				lock := `SELECT text FROM notes WHERE id = ? FOR UPDATE`
				var text string
				if err := tx.QueryRowContext(ctx, lock, mine).Scan(&text); err != nil {
					return err
				}
				both.Done()
				both.Wait()
				tx.QueryRowContext(ctx, lock, other).Scan(&text) // and does not look whether it failed
				tx.ExecContext(ctx, `INSERT INTO notes (text) VALUES (?)`, fmt.Sprint("after ", mine))
				tx.QueryRowContext(ctx, `SELECT text FROM notes`).Scan(&text)
				tx.InsertID(ctx, `INSERT INTO notes (text) VALUES (?)`, fmt.Sprint("after ", mine))
				return nil
			})
		}
		failed := make(chan error, 2)
		go func() { failed <- careless(1, 2) }()
		go func() { failed <- careless(2, 1) }()
		errs := []error{<-failed, <-failed}
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Fatalf("one of two has to fail: %v", errs)
		}
		if err := errors.Join(errs...); errors.Is(err, dbroute.ErrCommitUnknown) {
			t.Errorf("the outcome is known: %v", err)
		}
		if n := count(t, e.PrimaryDB(), `SELECT count(*) FROM notes WHERE text LIKE 'after %'`); n != 2 {
			t.Errorf("%d notes of a transaction that inserts two", n)
		}
	})
}

// What MySQL makes of a set is what is made of it here.
func TestGTIDSetsAsTheServerWritesThem(t *testing.T) {
	stacktest.Only(t, "mysql")
	e := newEnv(t, "mysql")
	const a, b = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "8A94F357-AAB4-11DF-86AB-C80AA9429562"
	for _, text := range []string{
		a + ":1", a + ":1-5:7", a + ":7:1-3:4", b + ":1-2,\n" + a + ":5", a + ": 1 - 3 , " + b + ":9",
		a + ":blue:1-2:red_1:7:9", a + ":1:blue:3," + a + ":2",
	} {
		var canonical string
		err := e.PrimaryDB().QueryRow(`SELECT GTID_SUBTRACT(?, '')`, text).Scan(&canonical)
		stacktest.Must(t, err)
		ours, theirs := dbroute.GTIDSet(text), dbroute.GTIDSet(canonical)
		if ours == "" || ours != theirs {
			t.Errorf("%q is %q here, and of the server's %q %q", text, ours, canonical, theirs)
		}
		var same sql.NullBool
		err = e.PrimaryDB().QueryRow(`SELECT GTID_SUBSET(?, ?) AND GTID_SUBSET(?, ?)`, ours, text, text, ours).Scan(&same)
		stacktest.Must(t, err)
		if !same.Bool {
			t.Errorf("%q is another set than %q", ours, text)
		}
	}
}
