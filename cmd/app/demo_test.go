package main

import (
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"freshread/internal/stack/stacktest"
)

// startDemo starts a demo and returns the address of its site once it is ready.
func startDemo(t *testing.T, engine, dir string, flags ...string) (*app, string) {
	t.Helper()
	a := startingDemo(t, engine, dir, flags...)
	return a, a.ready(t)
}

func startingDemo(t *testing.T, engine, dir string, flags ...string) *app {
	t.Helper()
	return start(t, nil, append([]string{"demo", "--engine", engine, "--addr", "127.0.0.1:0", "--data", dir}, flags...)...)
}

func (a *app) ready(t *testing.T) (site string) {
	t.Helper()
	return a.says(t, &a.out, `^ready: (http://127\.0\.0\.1:\d+)$`)
}

func TestDemoShowsWhatWasSavedAtOnceAndOnTheReplicaLater(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		// So long that a busy machine has read the page by then.
		demo, site := startDemo(t, engine, newFolder(t), "--delay", "2s")

		const post = "/posts/1"
		writer, other := newBrowser(t, site), newBrowser(t, site)
		before := other.see(t, post)
		if before.Server != "2" || before.Reason != "no pending commit" || before.Title == "" {
			t.Fatalf("before the save the page shows %+v", before)
		}
		writer.logIn(t)
		if got := writer.submit(t, post+"/edit", "A new title"); got != post {
			t.Fatalf("the save leads to %s", got)
		}
		if got, want := writer.see(t, post), (seen{"A new title", "1", "commit not reached"}); got != want {
			t.Fatalf("after the save the page shows %+v, want %+v", got, want)
		}
		if got := other.see(t, post); got != before {
			t.Errorf("others see %+v, want %+v", got, before)
		}
		var got seen
		eventually(t, "the replica answers", func() bool {
			got = writer.see(t, post)
			if got.Title != "A new title" {
				t.Fatalf("the page shows %+v", got)
			}
			return got.Server != "1"
		})
		if want := (seen{"A new title", "2", "commit reached"}); got != want {
			t.Errorf("after the delay the page shows %+v, want %+v", got, want)
		}
		if stderr := demo.errOut.String(); stderr != "" {
			t.Errorf("stderr is %q", stderr)
		}
	})
}

func TestDemoTellsItsServersAndThenItsAddress(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		demo, site := startDemo(t, engine, newFolder(t), "--delay", "1s", "--replicas", "2")
		lines := strings.Split(strings.TrimSpace(demo.out.String()), "\n")
		want := []string{
			"starting " + engine + ": a primary and 2 replica(s)",
			"server 1: primary at 127.0.0.1:",
			"server 2: replica at 127.0.0.1:",
			"server 3: replica at 127.0.0.1:",
		}
		if engine != "postgres" {
			want = append(want, "queue: postgres at 127.0.0.1:")
		}
		want = append(want, "ready: "+site)
		for i, want := range want {
			if i >= len(lines) || !strings.HasPrefix(lines[i], want) {
				t.Fatalf("line %d of the output is not %q:\n%s", i+1, want, &demo.out)
			}
		}
		if len(lines) != len(want) {
			t.Errorf("%d lines, want %d:\n%s", len(lines), len(want), &demo.out)
		}
		if late := "applies 1s late"; strings.Contains(lines[1], late) || !strings.Contains(lines[2], late) || !strings.Contains(lines[3], late) {
			t.Errorf("the replicas, and only they, are to be said to be late:\n%s", &demo.out)
		}

		visitor := newBrowser(t, site)
		for path, want := range map[string]string{
			"/":        ".intro", // what to try
			"/posts":   "ol.posts > li",
			"/posts/1": "article.post",
		} {
			if visitor.get(t, path).Find(want).Length() == 0 {
				t.Errorf("%s has no %s", path, want)
			}
		}
		for path, want := range map[string]string{
			"/healthz": "ok\n",
			"/readyz":  "server 1 (primary): up\nserver 2 (replica): up\nserver 3 (replica): up\n",
		} {
			if got := visitor.get(t, path).Text(); got != want {
				t.Errorf("%s says %q, want %q", path, got, want)
			}
		}
	})
}

func TestDemoEndsInOrderOn(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
			t.Run(sig.String(), func(t *testing.T) {
				if signal.Ignored(sig) {
					t.Skip("the test itself runs under nohup, which the demo heeds")
				}
				dir := newFolder(t)
				demo, site := startDemo(t, engine, dir)
				newBrowser(t, site).get(t, "/") // and keeps the connection
				if len(serversIn(t, dir)) == 0 {
					t.Fatal("this test sees no servers")
				}
				demo.signal(t, sig)
				demo.wantExit(t, 0)
				wantEmpty(t, dir)
			})
		}
	})
}

func TestDemoInterruptedDuringItsStartLeavesNothing(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		dir := newFolder(t)
		demo := startingDemo(t, engine, dir)
		eventually(t, "something runs", func() bool { return len(serversIn(t, dir)) > 0 })
		demo.signal(t, os.Interrupt)
		demo.wantExit(t, 1)
		wantEmpty(t, dir)
		wantOneLine(t, demo.errOut.String(), "interrupt")
	})
}

func TestDemoUnderNohupOutlivesTheTerminal(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		nohup, err := exec.LookPath("nohup")
		if err != nil {
			t.Skip(err)
		}
		dir := newFolder(t)
		demo := startCommand(t, nil, exec.Command(nohup, binary, "demo", "--engine", engine, "--addr", "127.0.0.1:0", "--data", dir, "--delay", "1s"))
		visitor := newBrowser(t, demo.ready(t)).logIn(t)
		demo.signal(t, syscall.SIGHUP)
		// This takes longer than the end of a demo that heeds the signal.
		visitor.submit(t, "/posts/1/edit", "Still here")
		eventually(t, "the replica answers", func() bool { return visitor.see(t, "/posts/1").Server == "2" })
		demo.signal(t, syscall.SIGTERM)
		demo.wantExit(t, 0)
		wantEmpty(t, dir)
	})
}

func TestNextDemoSweepsAfterOneThatWasKilled(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		dir := newFolder(t)
		first, _ := startDemo(t, engine, dir)
		first.signal(t, syscall.SIGKILL)
		first.wantExit(t, -1)
		strays, folders := serversIn(t, dir), filesIn(t, dir)
		want := 1
		if engine != "postgres" {
			want = 2 // that of the queue's server
		}
		if len(strays) == 0 || len(folders) != want {
			t.Fatalf("this test sees %q in %q, want strays in %d folder(s)", strays, folders, want)
		}

		second, site := startDemo(t, engine, dir)
		if got := newBrowser(t, site).see(t, "/posts/1"); got.Title == "" || got.Server != "2" {
			t.Errorf("the page shows %+v", got)
		}
		for _, folder := range folders {
			if left := serversIn(t, folder); len(left) > 0 {
				t.Errorf("servers of the first are left: %q", left)
			}
			if _, err := os.Stat(folder); !os.IsNotExist(err) {
				t.Errorf("a folder of the first is left: %v", err)
			}
		}
		second.signal(t, syscall.SIGTERM)
		second.wantExit(t, 0)
		wantEmpty(t, dir)
	})
}

func TestTwoDemosShareAFolderAndNothingElse(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		dir := newFolder(t)
		first, second := startingDemo(t, engine, dir), startingDemo(t, engine, dir)
		here, there := newBrowser(t, first.ready(t)).logIn(t), newBrowser(t, second.ready(t)).logIn(t)

		here.submit(t, "/posts/1/edit", "Only here")
		if got := here.see(t, "/posts/1"); got.Title != "Only here" {
			t.Errorf("where it was saved the page shows %+v", got)
		}
		if got := there.see(t, "/posts/1"); got.Title == "Only here" {
			t.Errorf("on the other site the page shows %+v", got)
		}

		first.signal(t, syscall.SIGTERM)
		first.wantExit(t, 0)
		there.submit(t, "/posts/1/edit", "Still there")
		if got, want := there.see(t, "/posts/1"), (seen{"Still there", "1", "commit not reached"}); got != want {
			t.Errorf("after the end of the first the second shows %+v, want %+v", got, want)
		}
		second.signal(t, syscall.SIGTERM)
		second.wantExit(t, 0)
		wantEmpty(t, dir)
	})
}

func TestDemoNamesTheAddressInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	stacktest.Must(t, err)
	defer taken.Close()
	stdout, stderr := runs(t, nil, 1, "demo", "--addr", taken.Addr().String())
	wantOneLine(t, stderr, "--addr: listen tcp "+taken.Addr().String()+": bind: address already in use")
	if stdout != "" {
		t.Errorf("stdout is %q", stdout)
	}
}

func TestDemoWithoutReplicasReadsThePrimary(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		_, site := startDemo(t, engine, newFolder(t), "--replicas", "0")
		if got := newBrowser(t, site).see(t, "/posts/1"); got.Server != "1" || got.Reason != "primary-only" {
			t.Errorf("the page shows %+v", got)
		}
	})
}
