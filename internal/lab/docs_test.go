package lab_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"freshread/internal/lab"
	"freshread/internal/stack/stacktest"
)

var update = flag.Bool("update", false, "write the transcripts in docs anew, on PostgreSQL, three seconds late")

// inDocs is a transcript in a page of docs, below a comment that tells whose it is.
var inDocs = regexp.MustCompile("(?s)<!-- app lab ([a-z-]+) -->\n```\n(.*?)```\n")

func pagesOfDocs(t *testing.T) (pages []string) {
	t.Helper()
	pages, err := filepath.Glob("../../docs/*.md")
	stacktest.Must(t, err)
	return pages
}

// transcriptsInDocs are the texts by the experiment's name.
func transcriptsInDocs(t *testing.T) map[string]string {
	t.Helper()
	transcripts := map[string]string{}
	for _, page := range pagesOfDocs(t) {
		text, err := os.ReadFile(page)
		stacktest.Must(t, err)
		for _, found := range inDocs.FindAllStringSubmatch(string(text), -1) {
			transcripts[found[1]] = found[2]
		}
	}
	return transcripts
}

// varying is what differs from run to run.
var varying = regexp.MustCompile(` *[+]?\d+(\.\d+)? ?m?s\b|\d+ reloads`)

// wantDocumented compares a result with what docs say, but for the times.
func wantDocumented(t *testing.T, name, transcript string, transcripts map[string]string) {
	t.Helper()
	got, want := varying.ReplaceAllString(transcript, " …"), varying.ReplaceAllString(transcripts[name], " …")
	if name == "outrun-limit" { // how many get through is a matter of time
		got, want = distinct(got), distinct(want)
	}
	if got != want {
		t.Errorf("docs say of %s\n%s\nwhat it shows is\n%s\ngo test ./internal/lab -run TestUpdateDocs -update writes them anew", name, want, got)
	}
}

func distinct(transcript string) string {
	var lines []string
	for line := range strings.Lines(transcript) {
		if !slices.Contains(lines, line) && !strings.Contains(line, "POST") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

func TestUpdateDocs(t *testing.T) {
	if !*update {
		t.Skip("it is for -update")
	}
	runner := newRunner(t, "postgres")
	runner.Lag = 3 * time.Second
	setDelay(t, runner.Stack, runner.Lag)
	shown := map[string]string{}
	for _, e := range lab.Experiments() {
		result, err := runner.Run(stacktest.Context(t), e)
		stacktest.Must(t, err)
		wantOK(t, result)
		shown[e.Name] = transcript(t, result)
	}
	for _, page := range pagesOfDocs(t) {
		text, err := os.ReadFile(page)
		stacktest.Must(t, err)
		text = inDocs.ReplaceAllFunc(text, func(block []byte) []byte {
			name := string(inDocs.FindSubmatch(block)[1])
			return []byte("<!-- app lab " + name + " -->\n```\n" + shown[name] + "```\n")
		})
		stacktest.Must(t, os.WriteFile(page, text, 0o644))
	}
}

// link is a relative one.
var link = regexp.MustCompile(`\]\(([^):#]+)(?:#[^)]*)?\)`)

func TestLinksInDocsLeadSomewhere(t *testing.T) {
	for _, page := range append(pagesOfDocs(t), "../../README.md") {
		text, err := os.ReadFile(page)
		stacktest.Must(t, err)
		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), found[1])); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
}
