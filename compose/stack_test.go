package compose_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// patience bounds every wait for what ought to happen soon, on a busy machine.
const patience = 3 * time.Minute

// stack is the project that these tests start: its own, so that nothing happens to
// one that somebody is using.
type stack struct {
	t         *testing.T
	project   string
	profiles  []string
	variables []string
}

func newStack(t *testing.T) *stack {
	t.Helper()
	dir, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	hash := fnv.New32a()
	hash.Write([]byte(dir)) // others may test another checkout
	d := &stack{t: t, project: fmt.Sprintf("freshread-test-%08x", hash.Sum32())}
	d.tearDown() // what is left of a test that was killed
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(d.with("*").run("ps", "--all"))
		}
		d.tearDown()
	})
	return d
}

func (d *stack) tearDown() {
	d.t.Helper()
	d.with("*").run("down", "--volumes", "--remove-orphans", "--rmi", "local", "--timeout", "5")
}

// in returns the stack for a subtest, so that failures are the subtest's.
func (d *stack) in(t *testing.T) *stack { return &stack{t, d.project, d.profiles, d.variables} }

// with returns the stack with one more profile.
func (d *stack) with(profile string) *stack {
	return &stack{d.t, d.project, append(slices.Clone(d.profiles), "--profile", profile), d.variables}
}

// set returns the stack with a variable, as in REPLICATION_DELAY=1.
func (d *stack) set(variable string) *stack {
	return &stack{d.t, d.project, d.profiles, append(slices.Clone(d.variables), variable)}
}

// up starts what is missing and waits until all is healthy.
func (d *stack) up(args ...string) {
	d.t.Helper()
	d.run(append([]string{"up", "--detach", "--wait"}, args...)...)
}

// run runs docker compose.
func (d *stack) run(args ...string) string {
	d.t.Helper()
	out, err := d.try(args...)
	if err != nil {
		d.t.Fatal(err)
	}
	return out
}

func (d *stack) try(args ...string) (string, error) {
	d.t.Helper()
	return output(d.command(args...))
}

func (d *stack) command(args ...string) *exec.Cmd {
	// A .env is for the user's own stack.
	cmd := exec.Command("docker", slices.Concat([]string{"compose", "--progress=quiet", "--env-file=/dev/null",
		"--project-name", d.project, "--file", "../docker-compose.yml"}, d.profiles, args)...)
	cmd.Env = append(os.Environ(), "COMPOSE_PROFILES=", fmt.Sprint("REPLICATION_DELAY=", delay), "READ_STRATEGY=commit",
		"APP_PORT=0", "POSTGRES_APP_PORT=0", "MARIADB_APP_PORT=0", "TWO_REPLICAS_APP_PORT=0") // free ones
	cmd.Env = append(cmd.Env, d.variables...)
	return cmd
}

func (d *stack) docker(args ...string) string {
	d.t.Helper()
	out, err := output(exec.Command("docker", args...))
	if err != nil {
		d.t.Fatal(err)
	}
	return out
}

func output(cmd *exec.Cmd) (string, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, &stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// ask runs a query on a server and returns its answer.
func (d *stack) ask(s site, server, query string) string {
	d.t.Helper()
	cmd := d.command(slices.Concat([]string{"exec", "-T", server}, s.engine.client)...)
	cmd.Stdin = strings.NewReader(query + ";\n")
	out, err := output(cmd)
	if err != nil {
		d.t.Fatal(err)
	}
	return out
}

// url is where a site is. A container that is made anew gets another port.
func (d *stack) url(s site) string {
	d.t.Helper()
	_, port, _ := strings.Cut(d.with("*").run("port", s.app, "8080"), ":")
	return "http://127.0.0.1:" + port
}

type container struct {
	ID, Service, State, Health string
	ExitCode                   int
	Publishers                 []struct {
		URL           string
		PublishedPort int
	}
}

func (d *stack) containers() []container {
	d.t.Helper()
	var all []container
	decoder := json.NewDecoder(strings.NewReader(d.run("ps", "--all", "--format", "json")))
	for decoder.More() {
		var c container
		if err := decoder.Decode(&c); err != nil {
			d.t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

// container is the id of a service's first one.
func (d *stack) container(service string) string {
	d.t.Helper()
	id, _, _ := strings.Cut(d.run("ps", "--all", "--quiet", service), "\n")
	return id
}

// waitHealthy waits, and starts nothing.
func (d *stack) waitHealthy() {
	d.t.Helper()
	d.eventually("everything is healthy", func() error {
		for _, c := range d.containers() {
			done := c.State == "exited" && c.ExitCode == 0 && strings.HasPrefix(c.Service, "migrate")
			if c.Health != "healthy" && !done {
				return fmt.Errorf("%s is %s %s", c.Service, c.State, c.Health)
			}
		}
		return nil
	})
}

// eventually repeats try until it succeeds.
func (d *stack) eventually(what string, try func() error) {
	d.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		err := try()
		if err == nil || d.t.Failed() {
			return
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("%s: %v", what, err)
		}
	}
}
