// Package compose_test proves docker-compose.yml: it starts the stack, walks the
// sites over HTTP as a visitor does, and stops and starts servers meanwhile. It
// takes some minutes and needs Docker, so it runs only with COMPOSE_TEST set:
// make compose-test.
package compose_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// delay is REPLICATION_DELAY: long enough for a page to be read before it is over.
const delay = 3

// People whom the log-in page offers: two, since log-ins for an account are limited.
const (
	one = iota
	other
)

// site is one of the sites that the stack has. Its servers are a primary and
// replicas, the late one first; their ids are 1, 2, 3.
type site struct {
	profile string
	app     string // the service at whose port it is
	engine  *engine
	servers []string
}

// always is what is there without a profile.
var always = site{app: "balancer", engine: mysql, servers: []string{"mysql-primary", "mysql-replica"}}

var sites = []site{
	{"two-replicas", "app-two-replicas", mysql, []string{"mysql-primary", "mysql-replica", "mysql-replica-fast"}},
	{"postgres", "app-postgres", postgres, []string{"postgres-primary", "postgres-replica"}},
	{"mariadb", "app-mariadb", mariadb, []string{"mariadb-primary", "mariadb-replica"}},
}

func TestCompose(t *testing.T) {
	if os.Getenv("COMPOSE_TEST") == "" {
		t.Skip("it needs Docker: make compose-test")
	}
	d := newStack(t)
	d.run("build", "--quiet")

	t.Run("always", func(t *testing.T) {
		d := d.in(t)
		d.interruptInitialisation(always)
		d.up()
		d.walk(always)
		d.wantOnlyTheSitePublished()
		d.survivesRestarts(always)
		d.survivesNewContainers(always)
	})
	t.Run("three processes", func(t *testing.T) { d.in(t).keepsPromisesInEveryProcess() })
	for _, s := range sites {
		t.Run(s.profile, func(t *testing.T) {
			d := d.in(t).with(s.profile)
			if s.engine != mysql { // else it is there already
				d.interruptInitialisation(s)
			}
			d.up()
			d.walk(s)
			if s.engine != mysql {
				d.survivesRestarts(s)
				d.survivesNewContainers(s)
			}
		})
	}
	t.Run("side by side", func(t *testing.T) {
		d := d.in(t).with("*")
		d.up()
		visitor := newBrowser(t)
		all := append([]site{always}, sites...)
		for _, s := range all {
			visitor.at(d.url(s)).logIn(one)
		}
		for _, s := range all {
			if visitor.at(d.url(s)).get("/").Find("[data-viewer]").Length() == 0 {
				t.Errorf("whoever logs in to all sites is not logged in on that of %s", s.app)
			}
		}
	})
}

// interruptInitialisation kills a primary that has begun to make its data: what is
// left looks finished to the image.
func (d *stack) interruptInitialisation(s site) {
	d.t.Helper()
	primary := s.servers[0]
	d.run("up", "--detach", primary)
	d.eventually(primary+" makes its data", func() error {
		_, err := d.try("exec", "-T", primary, "test", "-e", s.engine.data)
		return err
	})
	d.run("kill", primary)
	if strings.Contains(d.run("logs", primary), s.engine.ready) {
		d.t.Fatal("the initialisation was over before it could be interrupted")
	}
}

// survivesRestarts ends servers in different ways and orders. After each the stack
// becomes healthy by itself, and everything works.
func (d *stack) survivesRestarts(s site) {
	d.t.Helper()
	primary, replica := s.servers[0], s.servers[1]
	for _, c := range []struct {
		name string
		do   func(d *stack)
	}{
		{"restart the replica", func(d *stack) { d.run("restart", replica) }},
		{"restart the primary", func(d *stack) { d.run("restart", primary) }},
		{"write while the replica is stopped", func(d *stack) {
			d.run("stop", replica)
			d.save(s)
			d.run("start", replica)
		}},
		{"stop the primary first, start the replica first", func(d *stack) {
			d.run("stop", primary)
			d.run("stop", replica)
			d.docker("start", d.container(replica)) // compose would start what it depends on
			d.docker("start", d.container(primary))
		}},
		{"kill both after a save", func(d *stack) {
			d.save(s)
			d.run("kill", replica, primary)
			d.run("start", primary, replica)
		}},
		{"save while the queue is stopped", func(d *stack) {
			if s.engine != postgres {
				d.savesWithoutTheQueue(s)
			}
		}},
		{"restart everything", func(d *stack) { d.run("restart") }},
	} {
		d.t.Run(c.name, func(t *testing.T) {
			d := d.in(t)
			c.do(d)
			d.waitHealthy()
			d.walk(s)
		})
	}
}

// survivesNewContainers makes all containers anew on the data that are there, with
// another delay.
func (d *stack) survivesNewContainers(s site) {
	d.t.Helper()
	path, title := d.save(s)
	d.run("down")
	d.set("REPLICATION_DELAY=1").up()
	if got := newBrowser(d.t).at(d.url(s)).see(path).title; got != title {
		d.t.Errorf("after down and up the title is %q, want %q", got, title)
	}
	if got, want := d.ask(s, s.servers[1], s.engine.delay), s.engine.oneSecond; got != want {
		d.t.Errorf("the replica's delay is %q, want %q", got, want)
	}
	d.up() // with the usual one
	d.walk(s)
}

// walk is what a visitor does: log in, save, reload until a replica has applied it.
// No page may show what was there before. Then all servers have the same.
func (d *stack) walk(s site) {
	d.t.Helper()
	d.waitRead(s)
	writer := newBrowser(d.t).at(d.url(s)).logIn(one)
	path := writer.submit("/posts/new", "First title")
	const title = "Second title"
	writer.submit(path+"/edit", title)
	primary := seen{title, "1", "commit not reached"}
	if got := writer.see(path); got != primary && len(s.servers) == 2 { // a second replica is fast
		d.t.Errorf("right after the save the page shows %+v, want %+v", got, primary)
	}
	d.eventually("the post is read from a replica", func() error {
		got := writer.see(path)
		if got.title != title {
			d.t.Errorf("after the save of %q the page shows %+v", title, got)
		}
		if got.server == "1" || got.reason != "commit reached" {
			return fmt.Errorf("the page shows %+v", got)
		}
		return nil
	})
	d.waitSummary(writer, path, title)
	for i, server := range s.servers {
		if got, want := d.ask(s, server, s.engine.serverID), strconv.Itoa(i+1); got != want {
			d.t.Errorf("the id of %s is %s, want %s", server, got, want)
		}
		d.eventually("all servers have the same", func() error {
			got := d.ask(s, server, "SELECT title FROM posts WHERE id = "+strings.TrimPrefix(path, "/posts/"))
			if got != title {
				return fmt.Errorf("%s has %q, want %q", server, got, title)
			}
			return nil
		})
		if i > 0 {
			s.engine.wantNoTransactionsOfItsOwn(d, s, server)
		}
	}
}

// waitSummary waits until a job has summarised a post as it is now.
func (d *stack) waitSummary(visitor *browser, path, title string) {
	d.t.Helper()
	d.eventually("the post is summarised", func() error {
		summary := visitor.get(path).Find(".summary:not([data-pending]) [data-summary-title]").Text()
		if summary != title {
			return fmt.Errorf("the summary's title is %q, want %q", summary, title)
		}
		return nil
	})
}

// savesWithoutTheQueue saves while the queue is down. The job runs when it is back.
func (d *stack) savesWithoutTheQueue(s site) {
	d.t.Helper()
	d.run("stop", "postgres-queue")
	writer, title := newBrowser(d.t).at(d.url(s)).logIn(other), "Saved without the queue"
	path := writer.submit("/posts/new", title)
	if writer.get(path).Find(".summary[data-pending]").Length() == 0 {
		d.t.Error("the page does not say that a job is pending")
	}
	d.run("start", "postgres-queue")
	d.waitSummary(writer, path, title)
}

// waitRead waits until all replicas are read. One that comes back has to catch up.
func (d *stack) waitRead(s site) {
	d.t.Helper()
	visitor := newBrowser(d.t).at(d.url(s))
	d.eventually("all servers are up", func() error {
		if up := visitor.get("/cluster").Find(".cluster").First().Find(`[data-state="up"]`).Length(); up != len(s.servers) {
			return fmt.Errorf("%d are", up)
		}
		return nil
	})
}

// save saves a post in a session of its own.
func (d *stack) save(s site) (path, title string) {
	d.t.Helper()
	title = "Title of " + time.Now().Format(time.StampNano)
	return newBrowser(d.t).at(d.url(s)).logIn(other).submit("/posts/new", title), title
}

// keepsPromisesInEveryProcess saves and reads through the balancer, which gives
// each request to another process. One of them goes away in between.
func (d *stack) keepsPromisesInEveryProcess() {
	d.t.Helper()
	const processes = 3
	d.up("--scale", "app=3")
	d.walk(always)
	writer := newBrowser(d.t).at(d.url(always)).logIn(other)
	path := writer.submit("/posts/new", "First title")
	saveAndReload := func(title string) {
		writer.submit(path+"/edit", title)
		for range 2 * processes {
			if got := writer.see(path); got.title != title {
				d.t.Errorf("after the save of %q the page shows %+v", title, got)
			}
		}
	}
	for round := range 5 {
		saveAndReload(fmt.Sprint("Round ", round))
	}
	answered := map[string]bool{}
	for line := range strings.Lines(d.run("logs", "--no-color", "app")) {
		if strings.Contains(line, "method=GET path="+path+" ") {
			answered[strings.Fields(line)[0]] = true
		}
	}
	if len(answered) != processes {
		d.t.Errorf("these processes have answered: %v, want %d", answered, processes)
	}
	d.docker("stop", d.container("app"))
	for round := range 5 {
		saveAndReload(fmt.Sprint("Without one, round ", round))
	}
}

func (d *stack) wantOnlyTheSitePublished() {
	d.t.Helper()
	for _, c := range d.containers() {
		for _, p := range c.Publishers {
			if p.PublishedPort != 0 && c.Service != always.app {
				d.t.Errorf("%s is published on %s:%d", c.Service, p.URL, p.PublishedPort)
			}
		}
	}
}
