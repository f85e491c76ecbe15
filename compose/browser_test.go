package compose_test

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
)

// browser is a visitor's. Like any, it sends a cookie to all ports of a host.
type browser struct {
	t      *testing.T
	site   string
	client *http.Client
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{t: t, client: &http.Client{
		Jar: jar, Timeout: time.Minute, Transport: &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// at goes to another site.
func (b *browser) at(site string) *browser {
	b.site = site
	return b
}

func (b *browser) get(path string) *goquery.Document {
	b.t.Helper()
	response, err := b.client.Get(b.site + path)
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		b.t.Fatalf("GET %s: %s", path, response.Status)
	}
	page, err := goquery.NewDocumentFromReader(response.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return page
}

// seen is what a post's page shows.
type seen struct{ title, server, reason string }

func (b *browser) see(path string) seen {
	b.t.Helper()
	page := b.get(path)
	read := page.Find(`[data-read="posts.ByID"]`)
	return seen{page.Find("[data-title]").Text(), read.AttrOr("data-server-id", ""), read.AttrOr("data-reason", "")}
}

// logIn becomes one of those whom the log-in page offers, by their place in it.
func (b *browser) logIn(place int) *browser {
	b.t.Helper()
	b.post("/login", fieldsOf(b.get("/login").Find(".demo-accounts form").Eq(place)))
	return b
}

// submit sends the form of a page with this title, and returns where it leads.
func (b *browser) submit(path, title string) (location string) {
	b.t.Helper()
	form := b.get(path).Find("form.editor")
	fields := fieldsOf(form)
	fields.Set("title", title)
	fields.Set("body", "Some text.")
	return b.post(form.AttrOr("action", ""), fields)
}

func fieldsOf(form *goquery.Selection) url.Values {
	fields := url.Values{}
	form.Find("[name]").Each(func(_ int, field *goquery.Selection) {
		fields.Set(field.AttrOr("name", ""), field.AttrOr("value", field.Text()))
	})
	return fields
}

func (b *browser) post(path string, fields url.Values) (location string) {
	b.t.Helper()
	response, err := b.client.PostForm(b.site+path, fields)
	if err != nil {
		b.t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusSeeOther {
		b.t.Fatalf("POST %s: %s", path, response.Status)
	}
	return response.Header.Get("Location")
}
