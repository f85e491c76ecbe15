package e2e_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"freshread/internal/site/sitetest"
	"freshread/internal/status"
)

const (
	title     = "[data-title]"
	notYet    = "commit not reached"
	reached   = "commit reached"
	byTitle   = "posts.ByID"
	byViewer  = "users.ByID"
	staleNote = ".stale"
)

func choose(strategy string) string { return `.switch button[value="` + strategy + `"]` }

func TestSavedTitleIsThereOnReload(t *testing.T) {
	each(t, func(t *testing.T, s *sitetest.Site) {
		v := newVisitor(t, s)
		v.signUp("Mara Lindqvist")
		post := v.write("Q3 pricing")
		s.Applied()
		v.until(post, "the replica is read", func() bool { return v.see(title, byTitle) == seen{"Q3 pricing", "2", reached} })

		resume := s.Pause()
		v.retitle("Q3 pricing update")
		v.wantSeen(title, byTitle, seen{"Q3 pricing update", "1", notYet})
		for range 3 {
			v.lead(chromedp.Reload())
			v.wantSeen(title, byTitle, seen{"Q3 pricing update", "1", notYet})
		}
		other := newVisitor(t, s)
		other.open(post)
		other.wantSeen(title, byTitle, seen{"Q3 pricing", "2", "no pending commit"})

		resume()
		s.Applied()
		v.until(post, "the replica is read", func() bool { return v.see(title, byTitle).server == "2" })
		v.wantSeen(title, byTitle, seen{"Q3 pricing update", "2", reached})
	})
}

func TestStrategiesBesideEachOther(t *testing.T) {
	each(t, func(t *testing.T, s *sitetest.Site) {
		v := newVisitor(t, s)
		v.signUp("Mara Lindqvist")
		post := v.write("First")
		s.Applied()
		defer s.Pause()()

		v.open(post)
		v.follow(choose("none"))
		v.retitle("Second")
		v.wantSeen(title, byTitle, seen{"First", "2", "strategy none"})
		if note := v.text(staleNote); !strings.HasPrefix(note, "This page is stale:") {
			t.Errorf("the note of a stale page says %q", note)
		}

		v.follow(choose("window"))
		v.open(post + "/edit")
		v.fill("#title", "Third")
		v.follow(".editor button")
		v.wantSeen(title, byTitle, seen{"Third", "1", "within window"})
		v.want(staleNote, "")

		v.follow(choose("commit"))
		v.wantSeen(title, byTitle, seen{"Third", "1", notYet})
		v.want(choose("commit")+`[aria-pressed="true"]`, "commit")
	})
}

func TestRenamedVisitorHasTheNewName(t *testing.T) {
	each(t, func(t *testing.T, s *sitetest.Site) {
		v := newVisitor(t, s)
		v.signUp("Mara")
		s.Applied()
		defer s.Pause()()
		v.follow("[data-viewer]") // their profile
		v.fill("#name", "Mara Lindqvist")
		v.follow(`form[action="/profile"] button`)
		v.wantSeen("[data-viewer]", byViewer, seen{"Mara Lindqvist", "1", notYet})
		v.open("/posts")
		v.wantSeen("[data-viewer]", byViewer, seen{"Mara Lindqvist", "1", notYet})
	})
}

// The line that the page offers is run as it stands.
func TestNewTokenWorksAtOnce(t *testing.T) {
	each(t, func(t *testing.T, s *sitetest.Site) {
		curl, err := exec.LookPath("curl")
		if err != nil {
			missing(t, err)
		}
		v := newVisitor(t, s)
		v.signUp("Mara Lindqvist")
		s.Applied()
		defer s.Pause()()
		v.open("/tokens")
		v.want(".empty", "You have no tokens.")
		v.fill("#name", "Backup script")
		v.follow("main form.narrow button")
		line := strings.Replace(v.text("[data-curl]"), "curl -i", curl+" -si", 1)
		out, err := exec.Command("bash", "-c", line).CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), "HTTP/1.1 200 ") || !strings.Contains(string(out), `"name":"Mara Lindqvist"`) {
			t.Errorf("%s: %v\n%s", line, err, out)
		}

		v.open("/tokens")
		v.want("[data-token]", "") // it is shown once
		v.follow(`.tokens button.danger`)
		if out, err := exec.Command("bash", "-c", line).CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "HTTP/1.1 401 ") {
			t.Errorf("revoked: %v\n%s", err, out)
		}
	})
}

func TestCommentIsCountedByItsJob(t *testing.T) {
	each(t, func(t *testing.T, s *sitetest.Site) {
		v := newVisitor(t, s)
		v.signUp("Mara Lindqvist")
		post := v.write("Q3 pricing")
		v.until(post, "the post has its summary", func() bool { return v.text(".summary:not([data-pending]) [data-summary-comments]") == "0 comments" })
		v.fill("#comment", "Looks right to me.")
		v.follow(".comments > form button")
		v.want("#comments-title", "1 comment")
		v.until(post, "the comment is in the summary", func() bool { return v.text(".summary:not([data-pending]) [data-summary-comments]") == "1 comment" })

		v.follow(`nav a[href="/jobs"]`)
		v.want(`[data-run] [data-label="Comments seen"]`, "1")
		v.want(`[data-run] [data-label="Result"]`, "done")
		v.follow("[data-title-seen]")
		if v.path() != post {
			t.Errorf("the run leads to %s, want %s", v.path(), post)
		}
	})
}

func TestWrongPasswordsAreCounted(t *testing.T) {
	each(t, func(t *testing.T, s *sitetest.Site) {
		v := newVisitor(t, s)
		v.excuse("status of 422")
		v.open("/login")
		v.fill("#email", "nobody@example.com")
		v.fill("#password", "a guess")
		if status := v.follow("form.narrow button"); status != 422 {
			t.Errorf("a wrong password is a %d", status)
		}
		v.want("#login-error", "The address or the password is wrong.")
		v.open("/limits")
		if used := v.attribute(`[data-limit="log-in-address"]`, "data-used"); used == "" || used == "0" {
			t.Errorf("%q log-ins are counted", used)
		}
	})
}

func TestClusterPageIsLive(t *testing.T) {
	each(t, func(t *testing.T, s *sitetest.Site) {
		v := newVisitor(t, s)
		v.open("/cluster")
		v.do(chromedp.WaitVisible(chromedp.ID("live")))
		v.want(".cluster .state", "up")

		server := `[data-server="2"]`
		before := v.text(server)
		newVisitor(t, s).open("/posts")
		evaluate[bool](v, fmt.Sprintf(`new Promise(resolve => {
			const look = () => document.querySelector(%q).innerText.trim() != %q ? resolve(true) : setTimeout(look, 50);
			look();
		})`, server, before), chromedp.EvalAwaitPromise)
	})
}

// A stream ends every few seconds, which nobody must see.
func TestClusterPageStaysLive(t *testing.T) {
	each(t, func(t *testing.T, s *sitetest.Site) {
		v := newVisitor(t, s)
		v.open("/cluster")
		v.do(chromedp.WaitVisible(chromedp.ID("live")))
		stayed := evaluate[bool](v, fmt.Sprintf(`new Promise(resolve => {
			const began = Date.now();
			new MutationObserver(() => resolve(false)).observe(live, {attributes: true});
			new MutationObserver(() => { if (Date.now() - began > %d) resolve(true); }).observe(state, {childList: true});
		})`, (2*status.Life).Milliseconds()), chromedp.EvalAwaitPromise)
		if !stayed {
			t.Error("between two streams the page is not live")
		}
	})
}

func TestConflictShowsBothTexts(t *testing.T) {
	each(t, func(t *testing.T, s *sitetest.Site) {
		v := newVisitor(t, s)
		v.signUp("Mara Lindqvist")
		post := v.write("First")
		v.open(post + "/edit")
		s.Exec(`UPDATE posts SET title = 'Theirs', version = version + 1`)
		v.excuse("status of 409")
		v.fill("#title", "Mine")
		if status := v.follow(".editor button"); status != 409 {
			t.Errorf("a save over somebody else's is a %d", status)
		}
		v.want(".problem blockquote b", "Theirs")
		v.follow(".editor button")
		v.want(title, "Mine")
	})
}
