package main

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"freshread/internal/stack/stacktest"
)

// variables are the names that config reads.
func variables() []string {
	var names []string
	for _, field := range reflect.VisibleFields(reflect.TypeFor[config]()) {
		if field.Anonymous {
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("env"), ",")
		names = append(names, name)
	}
	return names
}

// example parses .env.example.
func example(t *testing.T) environment {
	t.Helper()
	text, err := os.ReadFile("../../.env.example")
	stacktest.Must(t, err)
	env := environment{}
	for _, m := range regexp.MustCompile(`(?m)^([A-Z_]+)=(.*)$`).FindAllStringSubmatch(string(text), -1) {
		env[m[1]] = m[2]
	}
	return env
}

func load(t *testing.T, env environment) *config {
	t.Helper()
	for _, name := range variables() {
		t.Setenv(name, "") // brings it back when the test ends
		os.Unsetenv(name)
	}
	for name, value := range env {
		t.Setenv(name, value)
	}
	cfg, err := loadConfig()
	stacktest.Must(t, err)
	return cfg
}

func TestExampleNamesEachVariable(t *testing.T) {
	documented := example(t)
	for _, name := range variables() {
		if _, ok := documented[name]; !ok {
			t.Errorf(".env.example does not name %s", name)
		}
	}
	for name := range documented {
		if !slices.Contains(variables(), name) {
			t.Errorf(".env.example names %s, which nothing reads", name)
		}
	}
}

// A value in the example is the default, so that a copied line changes nothing.
func TestExampleShowsTheDefaults(t *testing.T) {
	required := environment{
		"DATABASE_PRIMARY_URL": "postgres://app@db/freshread",
		"SESSION_KEYS":         strings.Repeat("0123456789abcdef", 4),
	}
	copied := example(t)
	delete(copied, "DATABASE_REPLICA_URLS") // an address of nobody's
	for name, value := range required {
		copied[name] = value
	}
	if got, want := load(t, copied), load(t, required); !reflect.DeepEqual(got, want) {
		t.Errorf("the example configures\n%+v\nwant the defaults\n%+v", got, want)
	}
}

func TestSessionKeys(t *testing.T) {
	hexKey, base64Key := strings.Repeat("0f", 32), "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	var got sessionKeys
	stacktest.Must(t, got.UnmarshalText([]byte(hexKey+", "+base64Key)))
	if len(got) != 2 || got[0][31] != 0x0f || got[1][31] != 0x1f || len(got[0]) != 32 || len(got[1]) != 32 {
		t.Errorf("got %x", got)
	}
}
