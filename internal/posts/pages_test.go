package posts_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"

	"freshread/internal/dbroute"
	"freshread/internal/posts"
	"freshread/internal/site"
	"freshread/internal/site/sitetest"
	"freshread/internal/stack/stacktest"
)

func TestMain(m *testing.M) { os.Exit(stacktest.Main(m)) }

func TestNewPostIsThereAfterTheRedirect(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		b := s.User("Mara")
		resume := s.Pause()
		p := b.Post("/posts", "title", "Hello", "body", "First paragraph.\r\n\r\nSecond.")
		p.Want(http.StatusOK, "[data-title]", "Hello").WantReads("1", dbroute.CommitNotReached)
		if n := p.Find(".post .prose p").Length(); n != 2 {
			t.Errorf("%d paragraphs", n)
		}
		s.Browser().Get(p.Path).Want(http.StatusNotFound, "h1", "There is nothing here").WantReads("2", dbroute.NoPendingCommit)
		b.Get("/posts").Want(http.StatusOK, ".posts h2", "Hello").WantReads("1", dbroute.CommitNotReached)
		b.Get("/").Want(http.StatusOK, ".posts h2", "Hello").WantReads("1", dbroute.CommitNotReached)
		resume()
		s.Applied()
		b.Get(p.Path).Want(http.StatusOK, "[data-title]", "Hello").WantReads("2", dbroute.CommitReached)
		s.Browser().Get(p.Path).Want(http.StatusOK, "[data-title]", "Hello").WantReads("2", dbroute.NoPendingCommit)
	})
}

func TestEditCommentDeleteWhilePaused(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		b, other := s.User("Mara"), s.Browser()
		path := b.Write("Q3 pricing")
		s.Pause()

		form := b.Get(path+"/edit").WantReads("2", dbroute.CommitReached)
		version := form.Find(`[name=version]`).AttrOr("value", "")
		p := b.Post(path, "title", "Q3 pricing update", "body", "New.", "version", version)
		p.Want(http.StatusOK, "[data-title]", "Q3 pricing update").WantReads("1", dbroute.CommitNotReached)
		if !strings.Contains(p.Text(".meta"), "edited") {
			t.Errorf("meta is %q", p.Text(".meta"))
		}
		b.Get(path+"/edit").Want(http.StatusOK, "textarea", "New.")
		other.Get(path).Want(http.StatusOK, "[data-title]", "Q3 pricing").WantReads("2", dbroute.NoPendingCommit)

		p = b.Post(path+"/comments", "body", "A <b>comment</b>")
		p.Want(http.StatusOK, "[data-comment] .prose", "A <b>comment</b>").Want(http.StatusOK, "#comments-title", "1 comment")
		other.Get(path).Want(http.StatusOK, "#comments-title", "Comments")
		comment := fmt.Sprintf("%s/comments/%d", path, p.Number("[data-comment]", "data-comment"))
		b.Get(comment+"/edit").Want(http.StatusOK, "textarea", "A <b>comment</b>")
		b.Post(comment, "body", "Better").Want(http.StatusOK, "[data-comment] .prose", "Better")
		b.Post(comment+"/delete").Want(http.StatusOK, "#comments-title", "Comments").WantReads("1", dbroute.CommitNotReached)

		b.Post(path+"/delete").Want(http.StatusOK, ".empty", "Nobody has written anything yet. Write the first post.")
		b.Get(path).Want(http.StatusNotFound, "h1", "There is nothing here").WantReads("1", dbroute.CommitNotReached)
		other.Get(path).Want(http.StatusOK, "[data-title]", "Q3 pricing")
	})
}

// The replica still has a post that is gone.
func TestWhatOthersHaveDeletedCannotBeChanged(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		b := s.User("Mara")
		path := b.Write("Gone soon")
		resume := s.Pause()
		exec(s, `DELETE FROM posts`) // by nobody who leaves a marker
		b.Get(path).Want(http.StatusOK, "[data-title]", "Gone soon")
		wantKept := func(p *sitetest.Page) {
			t.Helper()
			p.Want(http.StatusNotFound, "h1", "There is nothing here").Want(http.StatusNotFound, "textarea[readonly]", "Still there?")
			if n := p.Find("main form").Length(); n != 0 {
				t.Error("what is gone for good is offered to be sent again")
			}
		}
		wantKept(b.Post(path+"/comments", "body", "Still there?"))
		b.Post(path+"/delete").Want(http.StatusNotFound, "h1", "There is nothing here")
		p := b.Post(path, "title", "Kept", "body", "What I typed").Want(http.StatusNotFound, "textarea", "What I typed")
		if got := p.Find("form.editor").AttrOr("action", ""); got != "/posts" {
			t.Errorf("the text would be sent to %q", got)
		}
		resume()
		s.Applied()
		wantKept(b.Post(path+"/comments", "body", "Still there?")) // loaded by nobody
	})
}

func TestSavingOverSomebodyElse(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		b, admin := s.User("Mara"), s.User("Yuki")
		exec(s, `UPDATE users SET role = 'admin' WHERE id = ?`, admin.ID)
		path := b.Write("Draft")
		s.Pause()
		version := b.Get(path+"/edit").Find(`[name=version]`).AttrOr("value", "")
		admin.Post(path, "title", "Theirs", "body", "Their text").Want(http.StatusOK, "[data-title]", "Theirs")

		p := b.Post(path, "title", "Mine", "body", "My text", "version", version)
		p.Want(http.StatusConflict, "textarea", "My text").Want(http.StatusConflict, ".problem blockquote b", "Theirs")
		version = p.Find(`[name=version]`).AttrOr("value", "")
		b.Post(path, "title", "Mine", "body", "My text", "version", version).Want(http.StatusOK, "[data-title]", "Mine")
	})
}

// An admin takes something out of a comment whose author has its form open.
func TestSavingACommentOverSomebodyElse(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		b, admin := s.User("Mara"), s.User("Yuki")
		exec(s, `UPDATE users SET role = 'admin' WHERE id = ?`, admin.ID)
		path := b.Write("Post")
		comment := fmt.Sprintf("%s/comments/%d", path, b.Post(path+"/comments", "body", "A secret").Number("[data-comment]", "data-comment"))
		s.Applied()
		s.Pause()
		versionOf := func(p *sitetest.Page) string { return p.Find("main [name=version]").AttrOr("value", "") }
		version := versionOf(b.Get(comment+"/edit").Want(http.StatusOK, "textarea", "A secret"))
		admin.Post(comment, "body", "Redacted", "version", versionOf(admin.Get(comment+"/edit"))).Want(http.StatusOK, "[data-comment] .prose", "Redacted")

		p := b.Post(comment, "body", "A secret, again", "version", version)
		p.Want(http.StatusConflict, "textarea", "A secret, again").Want(http.StatusConflict, ".problem blockquote", "Redacted")
		admin.Get(path).Want(http.StatusOK, "[data-comment] .prose", "Redacted")
		b.Post(comment, "body", "", "version", version).Want(http.StatusUnprocessableEntity, "#comment-error", "Please write a comment.")
		b.Post(comment, "body", "Mine", "version", versionOf(p)).Want(http.StatusOK, "[data-comment] .prose", "Mine")
		for _, wrong := range []string{"x", "0", "99999999999"} {
			b.Post(comment, "body", "Mine", "version", wrong).Want(http.StatusBadRequest, "h1", "The request could not be understood")
		}
	})
}

func TestFormsSayWhatIsWrong(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		b := s.User("Mara")
		path := b.Write("Post")
		long := strings.Repeat("é", posts.MaxTitle+1)
		for _, c := range []struct {
			name, path  string
			title, body string
			selector    string
			want        string
		}{
			{"no title", "/posts", " \t", "Body", "#title-error", "Please write a title."},
			{"no body", "/posts", "Title", "\r\n", "#body-error", "Please write a text."},
			{"long title", path, long, "Body", "#title-error", "The title has 201 characters. At most 200 fit."},
			{"long body", path, "Title", strings.Repeat("x", posts.MaxBody+1), "#body-error", "The text has 20001 characters. At most 20000 fit."},
			{"NUL", "/posts", "a\x00b", "Body", "#title-error", "The title has characters that are not text. Please remove them."},
			{"no UTF-8", path, "Title", "a\xffb", "#body-error", "The text has characters that are not text. Please remove them."},
		} {
			t.Run(c.name, func(t *testing.T) {
				p := b.In(t).Post(c.path, "title", c.title, "body", c.body)
				p.Want(http.StatusUnprocessableEntity, c.selector, c.want)
				if c.name == "no body" && p.Find("#title").AttrOr("value", "") != "Title" {
					t.Error("what was typed is gone")
				}
				invalid := p.Find(`[aria-invalid=true]`)
				if "#"+invalid.AttrOr("id", "")+"-error" != c.selector {
					t.Errorf("the invalid field is %q", invalid.AttrOr("id", ""))
				}
			})
		}
		b.Post("/posts", "title", strings.Repeat("é", posts.MaxTitle), "body", strings.Repeat("🙂", posts.MaxBody)).
			Want(http.StatusOK, "[data-title]", strings.Repeat("é", posts.MaxTitle))
		b.Post(path+"/comments", "body", "").
			Want(http.StatusUnprocessableEntity, "#comment-error", "Please write a comment.").
			Want(http.StatusUnprocessableEntity, "[data-title]", "Post")
	})
}

func TestRequestsThatNoFormMakes(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		b := s.User("Mara")
		post := b.Write("Post")
		for _, c := range []struct {
			method, path, body string
			header             string
			want               int
		}{
			{"GET", "/posts/0", "", "", 404},
			{"GET", "/posts/-1", "", "", 404},
			{"GET", "/posts/abc", "", "", 404},
			{"GET", "/posts/99999999999999999999", "", "", 404},
			{"GET", "/posts/9223372036854775807", "", "", 404},
			{"GET", "/posts/%00", "", "", 404},
			{"GET", "/posts?before=abc", "", "", 400},
			{"GET", "/posts?before=-1", "", "", 400},
			{"GET", post + "?before=x", "", "", 400},
			{"GET", "/nothing", "", "", 404},
			{"GET", "/static/nothing", "", "", 404},
			{"PUT", "/posts", "", "", 405},
			{"DELETE", post, "", "", 405},
			{"POST", "/posts/abc", "title=a&body=b", "", 404},
			{"POST", "/posts", "title=%zz&body=b", "", 400},
			{"POST", post, "title=a&body=b&version=x", "", 400},
			{"POST", post, "title=a&body=b&version=99999999999", "", 400},
			{"POST", "/posts", "title=a&body=" + strings.Repeat("b", 600<<10), "", 413},
			{"POST", "/posts", "title=a&body=b", "Sec-Fetch-Site: cross-site", 403},
			{"POST", "/posts", "title=a&body=b", "Origin: https://elsewhere.example", 403},
			{"POST", "/posts", `{"title":"a"}`, "Content-Type: application/json", 422},
			{"HEAD", "/", "", "", 200},
			{"HEAD", post, "", "", 200},
		} {
			t.Run(c.method+" "+c.path, func(t *testing.T) {
				request, err := http.NewRequest(c.method, s.URL+c.path, strings.NewReader(c.body))
				stacktest.Must(t, err)
				request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				if name, value, ok := strings.Cut(c.header, ": "); ok {
					request.Header.Set(name, value)
				}
				request.AddCookie(&http.Cookie{Name: sitetest.SessionCookie, Value: b.Cookie(sitetest.SessionCookie)})
				response, err := http.DefaultTransport.RoundTrip(request)
				stacktest.Must(t, err)
				response.Body.Close()
				if response.StatusCode != c.want {
					t.Errorf("status is %d, want %d", response.StatusCode, c.want)
				}
			})
		}
	})
}

func TestPagesOfAList(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		author, b := s.User("Mara"), s.Browser()
		for i := 1; i <= 23; i++ {
			create(s, author.ID, fmt.Sprintf("Post %d", i))
		}
		s.Applied()
		for _, first := range []string{"/posts", fmt.Sprintf("/people/%d", author.ID)} {
			wantTitles(t, b, first)
		}
		b.Get("/posts?before=1").Want(http.StatusOK, ".empty", "There are no older posts.")
	})
}

func wantTitles(t *testing.T, b *sitetest.Browser, first string) {
	t.Helper()
	var titles []string
	for path := first; path != ""; {
		p := b.Get(path).WantReads("2", dbroute.NoPendingCommit)
		p.Find(".posts h2").Each(func(_ int, h *goquery.Selection) { titles = append(titles, strings.TrimSpace(h.Text())) })
		path = p.Find("a[rel=next]").AttrOr("href", "")
	}
	for i, title := range titles {
		if want := fmt.Sprintf("Post %d", 23-i); title != want {
			t.Fatalf("title %d is %q, want %q", i, title, want)
		}
	}
	if len(titles) != 23 {
		t.Errorf("%d titles", len(titles))
	}
}

func create(s *sitetest.Site, author int64, title string) int64 {
	s.T.Helper()
	id, err := s.Posts.Create(stacktest.Context(s.T), author, posts.Draft{Title: title, Body: "Body of " + title})
	stacktest.Must(s.T, err)
	return id
}

// exec changes the primary as no user would, and leaves no marker.
func exec(s *sitetest.Site, statement string, args ...any) {
	s.T.Helper()
	stacktest.Must(s.T, s.Cluster.Write(stacktest.Context(s.T), "exec", func(ctx context.Context, tx *dbroute.Tx) error {
		_, err := tx.ExecContext(ctx, statement, args...)
		return err
	}))
}

func TestPagesOfComments(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		author := s.User("Mara").ID
		id := create(s, author, "Busy")
		for i := 1; i <= 101; i++ {
			_, err := s.Posts.AddComment(stacktest.Context(t), id, author, fmt.Sprintf("Comment %d", i))
			stacktest.Must(t, err)
		}
		s.Applied()
		b := s.Browser()
		p := b.Get(fmt.Sprintf("/posts/%d", id)).Want(http.StatusOK, "[data-comment] .prose", "Comment 2").
			Want(http.StatusOK, "#comments-title", "Comments") // and not their number on the page
		if n := p.Find("[data-comment]").Length(); n != 100 {
			t.Errorf("%d comments", n)
		}
		earlier := p.Find("#comments a").First().AttrOr("href", "")
		b.Get(fmt.Sprintf("/posts/%d", id)+earlier).Want(http.StatusOK, "[data-comment] .prose", "Comment 1").
			Want(http.StatusOK, "#comments-title", "Comments")
	})
}

func TestPrimaryDown(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Start(t, engine, 1)
		s := sitetest.NewOn(t, servers)
		user, visitor := s.User("Mara"), s.Browser()
		path := user.Write("Post")
		writer := user.LogIn()
		s.Pause()
		writer.Post(path, "title", "New title", "body", "Text").WantReads("1", dbroute.CommitNotReached)
		session := s.Browser() // has the marker, and no session
		session.Client = &http.Client{Jar: withoutSession(t, writer)}
		stacktest.Must(t, servers.Primary().Kill(stacktest.Context(t)))

		visitor.Get(path).Want(http.StatusOK, "[data-title]", "Post").WantReads("2", dbroute.NoPendingCommit).
			Want(http.StatusOK, ".read-only", "") // nobody watches the servers
		down := "The primary cannot be reached"
		session.Get(path).Want(http.StatusServiceUnavailable, "h1", down) // never stale
		user.Get(path).Want(http.StatusServiceUnavailable, "h1", down)    // is the session still valid?
		user.Post(path, "title", "Mine", "body", "My text").
			Want(http.StatusServiceUnavailable, "h1", down).
			Want(http.StatusServiceUnavailable, "textarea[name=body]", "My text")
		user.Post(path+"/comments", "body", "My comment").
			Want(http.StatusServiceUnavailable, "textarea[name=body]", "My comment")
		p := user.Post("/profile/password", "current", user.Password, "password", "another password")
		p.Want(http.StatusServiceUnavailable, "h1", down)
		if html, _ := p.Html(); strings.Contains(html, user.Password) || strings.Contains(html, "another password") {
			t.Error("the page repeats a password")
		}
		visitor.Post("/login", "email", user.Email, "password", user.Password).
			Want(http.StatusServiceUnavailable, ".problem strong", down+".")

		stacktest.Must(t, servers.Primary().Start(stacktest.Context(t)))
		writer.Get(path).Want(http.StatusOK, "[data-title]", "New title")
	})
}

// What a visitor can still read says that nothing can be saved, for as long as that is
// so, and no longer.
func TestPagesSayThatThePrimaryIsDown(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Start(t, engine, 1)
		s := sitetest.NewOn(t, servers)
		path := s.User("Mara").Write("Post")
		s.Watch()
		visitor := s.Browser()
		notice := "The primary cannot be reached. You can read; saving must wait until it is back."
		want := func(notice string) {
			t.Helper()
			for page, title := range map[string]string{"/": "Newest posts", "/posts": "Posts", path: "Post"} {
				visitor.Get(page).Want(http.StatusOK, "h1", title).WantReads("2", dbroute.NoPendingCommit).
					Want(http.StatusOK, ".read-only[role=status]", notice)
			}
			visitor.Get("/login").Want(http.StatusOK, ".read-only", notice)
			visitor.Get("/nothing").Want(http.StatusNotFound, ".read-only", notice)
		}
		want("")
		stacktest.Must(t, servers.Primary().Kill(stacktest.Context(t)))
		s.WaitState(0, dbroute.Down)
		want(notice)
		stacktest.Must(t, servers.Primary().Start(stacktest.Context(t)))
		s.WaitState(0, dbroute.Up)
		s.WaitState(1, dbroute.Up)
		want("")
	})
}

func withoutSession(t *testing.T, b *sitetest.Browser) http.CookieJar {
	t.Helper()
	jar, err := cookiejar.New(nil)
	stacktest.Must(t, err)
	u, err := url.Parse(b.URL)
	stacktest.Must(t, err)
	for _, c := range b.Client.Jar.Cookies(u) {
		if c.Name != sitetest.SessionCookie {
			jar.SetCookies(u, []*http.Cookie{c})
		}
	}
	return jar
}

func TestOnlyOnesOwnCanBeChanged(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		author, other, admin, visitor := s.User("Mara"), s.User("Tobias"), s.User("Yuki"), s.Browser()
		exec(s, `UPDATE users SET role = 'admin' WHERE id = ?`, admin.ID)
		path := author.Write("Mine")
		p := author.Post(path+"/comments", "body", "My comment")
		comment := fmt.Sprintf("%s/comments/%d", path, p.Number("[data-comment]", "data-comment"))
		s.Applied()

		forbidden := "This is not yours to see or change"
		other.Get(path+"/edit").Want(http.StatusForbidden, "h1", forbidden)
		other.Post(path, "title", "Theirs", "body", "Typed").Want(http.StatusForbidden, "h1", forbidden).
			Want(http.StatusForbidden, "textarea", "Typed") // by the author, before logging in as somebody else in another tab
		other.Post(path+"/delete").Want(http.StatusForbidden, "h1", forbidden)
		other.Get(comment+"/edit").Want(http.StatusForbidden, "h1", forbidden)
		other.Post(comment, "body", "b").Want(http.StatusForbidden, "h1", forbidden)
		other.Post(comment+"/delete").Want(http.StatusForbidden, "h1", forbidden)
		if n := other.Get(path).Find(`a[href$="/edit"], form[action$="/delete"]`).Length(); n != 0 {
			t.Errorf("another user is offered %d ways to change the post", n)
		}

		visitor.Get(path+"/edit").Want(http.StatusOK, "h1", "Log in")
		visitor.Get("/posts/new").Want(http.StatusOK, "h1", "Log in")
		visitor.Post(path, "title", "a", "body", "Typed").Want(http.StatusUnauthorized, "textarea", "Typed")
		visitor.Post("/posts", "title", "a", "body", "Typed").Want(http.StatusUnauthorized, "textarea", "Typed")
		visitor.Post(path+"/comments", "body", "Typed").Want(http.StatusUnauthorized, "textarea", "Typed")
		visitor.Post(comment, "body", "Typed").Want(http.StatusUnauthorized, "textarea", "Typed")
		visitor.Post(path+"/delete").Want(http.StatusUnauthorized, "h1", "You are not logged in")

		visitor.Get(path).Want(http.StatusOK, "[data-title]", "Mine").Want(http.StatusOK, "[data-comment] .prose", "My comment")
		admin.Post(comment+"/delete").Want(http.StatusOK, "#comments-title", "Comments")
		admin.Post(path+"/delete").Want(http.StatusOK, ".flash", "The post is deleted.")
	})
}

func TestStalePageSaysSo(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine, func(cfg *site.Config) { cfg.Demo = true })
		b := s.User("Mara")
		path := b.Write("Q3 pricing")
		s.Pause()
		b.Post("/strategy", "strategy", "none", "back", path).Want(http.StatusOK, `.switch [aria-pressed="true"]`, "none")
		p := b.Post(path, "title", "Q3 pricing update", "body", "b").WantReads("2", dbroute.StrategyNone)
		p.Want(http.StatusOK, "[data-title]", "Q3 pricing").Want(http.StatusOK, ".stale", "This page is stale: the primary already has “Q3 pricing update”.")
		if back := b.Post(path+"/comments", "body", "").Find(".switch [name=back]").AttrOr("value", ""); back != "/" {
			t.Errorf("the switch on the answer to a form leads back to %q, which is no page", back)
		}
		b.Post("/profile", "name", "Mara L")
		b.Get("/profile").Want(http.StatusOK, ".stale", "This page is stale: the primary already has the name “Mara L”.")
		b.Get(fmt.Sprintf("/people/%d", b.ID)).Want(http.StatusOK, ".stale", "This page is stale: the primary already has the name “Mara L”.")

		p = b.Post("/strategy", "strategy", "commit", "back", path).WantReads("1", dbroute.CommitNotReached)
		p.Want(http.StatusOK, "[data-title]", "Q3 pricing update").Want(http.StatusOK, ".stale", "").Want(http.StatusOK, "[data-viewer]", "Mara L")
	})
}
