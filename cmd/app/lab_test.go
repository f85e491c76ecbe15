package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

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
