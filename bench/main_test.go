package main

import (
	"io"
	"strings"
	"testing"
)

func TestMeasurementsCanBeMadeAlone(t *testing.T) {
	c, err := parse([]string{"--quick", "writes", "routing"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(names(c.measurements), " "); got != "routing writes" || !c.options.Quick {
		t.Errorf("got %q, quick %v; want them in the order of the report", got, c.options.Quick)
	}
	if c, err = parse(nil, io.Discard); err != nil || len(c.measurements) != len(measurements()) {
		t.Errorf("without a name %d are made, %v", len(c.measurements), err)
	}
	if _, err := parse([]string{"rooting"}, io.Discard); err == nil || !strings.Contains(err.Error(), "routing") {
		t.Errorf("a name that there is not: %v", err)
	}
}

func TestQuickRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), []string{"--quick", "routing"}, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "at most 3 allocations") || strings.Contains(out.String(), "MET") {
		t.Errorf("got %s", out.String())
	}
}
