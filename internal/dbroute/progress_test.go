package dbroute

import "testing"

func TestProgress(t *testing.T) {
	const uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
	for _, c := range []struct {
		engine                engine
		far, near, far2, junk string // far2 is as far as far, in another history or domain
	}{
		{postgres{}, "postgres:1:10/0", "postgres:1:F/FFFFFFFF", "postgres:2:10/0", "postgres:x"},
		{newMySQL(), "mysql:" + uuid + ":1-9", "mysql:" + uuid + ":1-8", "mysql:" + uuid + ":tag:1-9", "mysql:x"},
		{newMariaDB(), "mariadb:0-1-9", "mariadb:0-2-8", "mariadb:1-1-9", "mariadb:x"},
	} {
		to := func(text string) progress { return progressTo(c.engine, CommitID{text}) }
		for _, from := range []string{c.far, c.near, c.far2, c.junk} {
			for _, other := range []string{c.far, c.near, c.far2, c.junk} {
				want := from == other && from != c.junk || from == c.far && other == c.near
				if got := to(from).isPast(to(other)); got != want {
					t.Errorf("%s is past %s: %v", from, other, got)
				}
				if got := c.engine.covers(CommitID{from}, CommitID{other}); got != want {
					t.Errorf("%s covers %s: %v", from, other, got)
				}
				if got := to(from).covers(CommitID{other}); got != want && other != c.junk {
					t.Errorf("progress to %s covers %s: %v", from, other, got)
				}
			}
			if none := (progress{}); none.covers(CommitID{from}) || none.isPast(to(from)) {
				t.Errorf("nothing covers %s", from)
			}
		}
	}
}
