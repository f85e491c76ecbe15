package site_test

import (
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"freshread/internal/dbroute"
	"freshread/internal/site"
	"freshread/internal/site/sitetest"
	"freshread/internal/stack/stacktest"
)

func TestMain(m *testing.M) { os.Exit(stacktest.Main(m)) }

// While replicas are paused, killed, restarted, hang and come back old, every page
// is answered, and whoever saved sees it on the next.
func TestPagesWhileReplicasFail(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Start(t, engine, 2)
		s := sitetest.NewOn(t, servers)
		s.Watch()
		var done atomic.Bool
		var wg sync.WaitGroup
		var pages, fromReplicas atomic.Int64
		for i := range 2 {
			b := s.User(fmt.Sprint("Writer ", i))
			path := b.Write("Version 0")
			wg.Go(func() {
				for n := 1; !done.Load(); n++ {
					title := fmt.Sprint("Version ", n)
					b.Post(path, "title", title, "body", "b").Want(http.StatusOK, "[data-title]", title)
					b.Get(path).Want(http.StatusOK, "[data-title]", title)
					time.Sleep(20 * time.Millisecond)
				}
			})
			visitor := s.Browser()
			wg.Go(func() {
				for !done.Load() {
					p := visitor.Get("/")
					if p.Status != http.StatusOK {
						t.Errorf("a visitor gets %d", p.Status)
					}
					pages.Add(1)
					if p.Header.Get("X-Server-Id") != "1" {
						fromReplicas.Add(1)
					}
				}
			})
		}
		third := s.User("Third")
		ctx := stacktest.Context(t)
		first, second := servers.Replicas()[0], servers.Replicas()[1]
		for _, fault := range []func() error{
			func() error { return first.PauseApply(ctx) },
			func() error { return second.Kill(ctx) },
			func() error { s.WaitState(2, dbroute.Down); return second.Start(ctx) },
			func() error { s.WaitState(2, dbroute.Up); return first.Restart(ctx) },
			func() error { s.WaitState(1, dbroute.Up); return first.Hang() },
			func() error { s.WaitState(1, dbroute.Down); return first.Continue() },
			func() error { s.WaitState(1, dbroute.Up); return second.Stop(ctx) },
			func() error { s.WaitState(2, dbroute.Down); return second.SetDelay(ctx, time.Hour) },
			func() error { third.Post("/posts", "title", "What it misses", "body", "b"); return second.Start(ctx) },
			func() error { s.WaitState(2, dbroute.Joining); return second.SetDelay(ctx, 0) },
			func() error { s.WaitState(2, dbroute.Up); return nil },
		} {
			stacktest.Must(t, fault())
		}
		done.Store(true)
		wg.Wait()
		if n := fromReplicas.Load(); n < pages.Load()/10 {
			t.Errorf("%d of %d pages came from replicas", n, pages.Load())
		}
		s.Applied()
		s.Browser().Get("/").Want(http.StatusOK, "h1", "Newest posts")
		if got := s.Browser().Get("/").Header.Get("X-Server-Id"); got == "1" {
			t.Error("in the end the pages of idle visitors are not read from replicas")
		}
	})
}

func TestBrowserKeepsToItsReplica(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.NewOn(t, stacktest.Start(t, engine, 2))
		used := map[string]bool{}
		for range 12 {
			b := s.Browser()
			own := b.Get("/").Header.Get("X-Server-Id")
			for range 4 {
				if got := b.Get("/").Header.Get("X-Server-Id"); got != own {
					t.Fatalf("a browser reads server %s, and then server %s", own, got)
				}
			}
			used[own] = true
		}
		if !used["2"] || !used["3"] {
			t.Errorf("12 browsers used the servers %v", used)
		}
	})
}

func TestSeedIsThereOnce(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine, func(cfg *site.Config) { cfg.Demo = true })
		ctx := stacktest.Context(t)
		for range 2 {
			stacktest.Must(t, site.Seed(ctx, s.Cluster))
		}
		s.Applied()
		if n := s.Browser().Get("/posts").Find(".posts li").Length(); n != 10 {
			t.Errorf("%d posts on the first page", n)
		}
		accounts := s.Browser().Get("/login").Find(".demo-accounts form")
		if accounts.Length() != 3 {
			t.Errorf("%d accounts are offered", accounts.Length())
		}
		email, _ := accounts.Find("[name=email]").Attr("value")
		password, _ := accounts.Find("[name=password]").Attr("value")
		s.Browser().Post("/login", "email", email, "password", password).Want(http.StatusOK, "[data-viewer]", "Mara Lindqvist")
	})
}

// Ports do not keep the cookies of a host apart: the names do, with the cluster's in
// them.
func TestSitesOfAHostDoNotDisturbEachOther(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine, func(cfg *site.Config) { cfg.Demo = true })
		b := s.User("Mara")
		b.Post("/strategy", "strategy", "none", "back", "/").Want(http.StatusOK, pressed, "none")
		noRedirect := *b
		noRedirect.Client = &http.Client{Jar: b.Client.Jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		noRedirect.Post("/posts", "title", "Title", "body", "Body").Want(http.StatusSeeOther, ".flash", "")

		cfg := s.Cluster.Config()
		cfg.Name = "other"
		cluster, err := dbroute.Open(cfg)
		stacktest.Must(t, err)
		t.Cleanup(func() { cluster.Close() })
		other := *b
		other.URL = s.Process(func(cfg *site.Config) { cfg.Cluster = cluster })
		other.Get("/").Want(http.StatusOK, pressed, "commit").Want(http.StatusOK, ".flash", "")
		other.Post("/strategy", "strategy", "window", "back", "/").Want(http.StatusOK, pressed, "window")

		b.Get("/").Want(http.StatusOK, pressed, "none").Want(http.StatusOK, ".flash", "Your post is saved.")
	})
}
