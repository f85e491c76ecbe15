package page

import (
	"bytes"
	"database/sql"
	"html/template"
	"math"
	"net/http"
	"slices"
	"strconv"

	"github.com/labstack/echo/v4"

	"freshread/internal/posts"
	"freshread/templates"
)

// bare is the page of a post by echo, database/sql and html/template alone: what somebody
// writes who has one database server, and wants nothing else of a site.
type bare struct {
	db   *sql.DB
	html *template.Template
}

func newBare(db *sql.DB) (*echo.Echo, error) {
	assets, err := templates.Assets(templates.Files)
	if err != nil {
		return nil, err
	}
	html, err := template.New("").Funcs(templates.Funcs).Funcs(assets).
		ParseFS(templates.Files, "layout.html", "parts/*.html", "pages/post.html")
	if err != nil {
		return nil, err
	}
	e := echo.New()
	e.GET("/posts/:id", (&bare{db, html}).show)
	return e, nil
}

// postPage is what the template shows.
type postPage struct {
	templates.Base
	Post     posts.Post
	Comments []posts.Comment
	All      bool
	Earlier  int64
	Summary  posts.Summary
	Pending  bool
	Trouble  string
	Form     form
}

// form is that of a comment.
type form struct{ Body, BodyError string }

func (form) MaxBody() int              { return posts.MaxComment }
func (*postPage) MayChange(int64) bool { return false }

func (b *bare) show(c echo.Context) error {
	id, err := strconv.ParseInt(c.Param("id"), 10, 64)
	if err != nil {
		return echo.ErrNotFound
	}
	page := &postPage{}
	page.Path, page.Back = c.Request().URL.Path, c.Request().URL.RequestURI()
	if page.Post, err = b.post(c, id); err != nil {
		return err
	}
	if page.Comments, err = b.comments(c, id); err != nil {
		return err
	}
	page.All = true
	if err = b.summarize(c, page); err != nil {
		return err
	}
	page.Title = page.Post.Title
	var body bytes.Buffer
	if err := b.html.ExecuteTemplate(&body, "layout.html", page); err != nil {
		return err
	}
	return c.HTMLBlob(http.StatusOK, body.Bytes())
}

func (b *bare) post(c echo.Context, id int64) (p posts.Post, err error) {
	err = b.db.QueryRowContext(c.Request().Context(), `
		SELECT p.id, coalesce(p.author_id, 0), coalesce(u.name, ''), p.title, p.body, p.version, p.created_at, p.updated_at
		  FROM posts p LEFT JOIN users u ON u.id = p.author_id
		 WHERE p.id = $1`, id).
		Scan(&p.ID, &p.AuthorID, &p.Author, &p.Title, &p.Body, &p.Version, &p.CreatedAt, &p.UpdatedAt)
	return p, err
}

func (b *bare) comments(c echo.Context, id int64) (list []posts.Comment, err error) {
	rows, err := b.db.QueryContext(c.Request().Context(), `
		SELECT c.id, coalesce(c.author_id, 0), coalesce(u.name, ''), c.body, c.version, c.created_at
		  FROM comments c LEFT JOIN users u ON u.id = c.author_id
		 WHERE c.post_id = $1 AND c.id < $2
		 ORDER BY c.id DESC
		 LIMIT $3`, id, int64(math.MaxInt64), 101)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var c posts.Comment
		if err := rows.Scan(&c.ID, &c.AuthorID, &c.Author, &c.Body, &c.Version, &c.CreatedAt); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	slices.Reverse(list)
	return list, rows.Err()
}

func (b *bare) summarize(c echo.Context, page *postPage) error {
	sum := &page.Summary
	sum.PostID = page.Post.ID
	var changes int64
	var madeAt sql.NullTime
	err := b.db.QueryRowContext(c.Request().Context(), `
		SELECT p.changes, coalesce(s.title, ''), coalesce(s.comments, 0), coalesce(s.words, 0), coalesce(s.minutes, 0),
		       coalesce(s.changes, 0), s.made_at
		  FROM posts p LEFT JOIN post_summaries s ON s.post_id = p.id
		 WHERE p.id = $1`, sum.PostID).
		Scan(&changes, &sum.Title, &sum.Comments, &sum.Words, &sum.Minutes, &sum.Changes, &madeAt)
	sum.MadeAt = madeAt.Time
	page.Pending = sum.Changes < changes
	return err
}
