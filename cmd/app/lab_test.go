package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"freshread/internal/lab"
	"freshread/internal/stack/stacktest"
)

func TestLabListsItsExperiments(t *testing.T) {
	stdout, _ := runs(t, nil, 0, "lab", "--list")
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	all := lab.Experiments()
	if len(lines) != len(all) {
		t.Fatalf("there are %d lines for %d experiments:\n%s", len(lines), len(all), stdout)
	}
	for i, e := range all {
		if !strings.HasPrefix(lines[i], e.Name+" ") || !strings.HasSuffix(lines[i], " "+e.Question) {
			t.Errorf("line %d is %q", i+1, lines[i])
		}
	}
}

func TestLabPrintsResultsAsJSON(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		dir := newFolder(t)
		stdout, stderr := runs(t, nil, 0, "lab", "--engine", engine, "--json", "no-routing", "--delay", "0", "--data", dir)
		var result lab.Result
		decoder := json.NewDecoder(strings.NewReader(stdout))
		decoder.DisallowUnknownFields()
		stacktest.Must(t, decoder.Decode(&result))
		if decoder.More() || stderr != "" {
			t.Errorf("besides one result there is %q", stdout+stderr)
		}
		if result.Name != "no-routing" || !result.OK() || !stale(result.Broken) || stale(result.Fixed) {
			t.Errorf("the result is %+v", result)
		}
		wantEmpty(t, dir)
	})
}

func TestLabSaysWhatItCannotRun(t *testing.T) {
	for _, engine := range []string{"mysql", "mariadb"} {
		stdout, _ := runs(t, nil, 0, "lab", "--list", "--engine", engine)
		if n := strings.Count(stdout, "Not on "+engine+": Only PostgreSQL can"); n != 1 {
			t.Errorf("it is said %d times:\n%s", n, stdout)
		}
	}
}

func TestLabFailsWhenAnObservationDoes(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		experiments, err := chooseExperiments([]string{"no-routing"})
		stacktest.Must(t, err)
		experiments[0].Fixed = experiments[0].Broken
		dir := newFolder(t)
		local, err := lab.StartLocal(t.Context(), lab.LocalConfig{
			Engine: engine, Delays: make([]time.Duration, 1), Dir: dir, Log: slog.New(slog.DiscardHandler), NoQueue: true,
		})
		stacktest.Must(t, err)
		defer func() { stacktest.Must(t, local.Close()) }()
		runner := &lab.Runner{Stack: local.Stack, Cluster: local.Cluster, Cache: local.Cache, Log: slog.New(slog.DiscardHandler)}
		var out bytes.Buffer
		if err := runAll(t.Context(), runner, experiments, true, streams{out: &out}); !errors.Is(err, errLabFailed) {
			t.Errorf("the error is %v", err)
		}
		var result lab.Result
		stacktest.Must(t, json.Unmarshal(out.Bytes(), &result))
		if result.OK() {
			t.Errorf("the result is %+v", result)
		}
	})
}

func TestTwoLabsAtOnce(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		dir := newFolder(t)
		args := []string{"lab", "--engine", engine, "--delay", "0", "--data", dir, "no-routing"}
		first, second := start(t, nil, args...), start(t, nil, args...)
		first.wantExit(t, 0)
		second.wantExit(t, 0)
		wantEmpty(t, dir)
	})
}

func stale(side lab.SideResult) bool {
	for _, o := range side.Observations {
		if o.Stale {
			return true
		}
	}
	return false
}

// As in app lab | head.
func TestLabWhoseReaderLeavesLeavesNothing(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		dir := newFolder(t)
		reader, writer, err := os.Pipe()
		stacktest.Must(t, err)
		cmd := exec.Command(binary, "lab", "--engine", engine, "no-routing", "--delay", "0", "--data", dir)
		cmd.Stdout = writer
		a := startCommand(t, nil, cmd)
		stacktest.Must(t, writer.Close())
		stacktest.Must(t, reader.Close())
		a.wantExit(t, 1)
		wantEmpty(t, dir)
		wantOneLine(t, a.errOut.String(), "broken pipe")
	})
}
