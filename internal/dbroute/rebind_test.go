package dbroute

import "testing"

func TestRebindDollar(t *testing.T) {
	for _, c := range []struct{ query, want string }{
		{"SELECT 1", "SELECT 1"},
		{"SELECT ? WHERE a = ? AND b = ?", "SELECT $1 WHERE a = $2 AND b = $3"},
		{"SELECT '?' || ? || 'it''s ?'", "SELECT '?' || $1 || 'it''s ?'"},
		{`SELECT "why?" FROM t WHERE a = ?`, `SELECT "why?" FROM t WHERE a = $1`},
		{"SELECT ? -- really?\n, ?", "SELECT $1 -- really?\n, $2"},
		{"SELECT ? /* ? */ - ? / ?", "SELECT $1 /* ? */ - $2 / $3"},
		{"SELECT ? -- the end?", "SELECT $1 -- the end?"},
		{"SELECT 'open ?", "SELECT 'open ?"},
		{"?", "$1"},
		{"SELECT $$why?$$, ?, $a$ $$?$$ $a$, ?", "SELECT $$why?$$, $1, $a$ $$?$$ $a$, $2"},
		{"SELECT a$b$?, $1?", "SELECT a$b$$1, $1$2"},
		{`SELECT E'it\'s ?', ?, e'a''\'?' || ?`, `SELECT E'it\'s ?', $1, e'a''\'?' || $2`},
		{`SELECT 'C:\', ?, name'\', ?`, `SELECT 'C:\', $1, name'\', $2`},
		{"SELECT /* a /* b */ ? */ ?", "SELECT /* a /* b */ ? */ $1"},
		{"SELECT ? /*/ ? */ ? /* ?", "SELECT $1 /*/ ? */ $2 /* ?"},
	} {
		if got := rebindDollar(c.query); got != c.want {
			t.Errorf("rebind %q: %q, want %q", c.query, got, c.want)
		}
	}
}

func TestPlaceholders(t *testing.T) {
	for n, want := range map[int]string{-1: "NULL", 0: "NULL", 1: "?", 3: "?, ?, ?"} {
		if got := Placeholders(n); got != want {
			t.Errorf("Placeholders(%d) is %q, want %q", n, got, want)
		}
	}
}

func TestRebinderIsBounded(t *testing.T) {
	r := rebinder{rewrite: rebindDollar}
	for i := range 2 * maxRebound {
		query := "SELECT ? -- " + string(rune('a'+i%26)) + string(rune(0x4e00+i))
		if got := r.rebind(query); got != "SELECT $1"+query[len("SELECT ?"):] {
			t.Fatalf("rebind %q: %q", query, got)
		}
	}
	if n := len(*r.known.Load()); n != maxRebound {
		t.Errorf("%d statements are cached", n)
	}
}

func FuzzRebindDollar(f *testing.F) {
	f.Add("SELECT '?' || ? -- ?\n/* ? */")
	f.Fuzz(func(t *testing.T, query string) { rebindDollar(query) })
}
