package main

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"testing"

	"github.com/PuerkitoBio/goquery"

	"freshread/internal/stack/stacktest"
)

// browser is a visitor of a site, with cookies.
type browser struct {
	site   string
	client *http.Client
}

func newBrowser(t *testing.T, site string) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	stacktest.Must(t, err)
	return &browser{site: site, client: &http.Client{
		Jar: jar, Timeout: patience, Transport: &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (b *browser) get(t *testing.T, path string) *goquery.Document {
	t.Helper()
	response, err := b.client.Get(b.site + path)
	stacktest.Must(t, err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s", path, response.Status)
	}
	page, err := goquery.NewDocumentFromReader(response.Body)
	stacktest.Must(t, err)
	return page
}

// seen is what a post's page shows.
type seen struct{ Title, Server, Reason string }

func (b *browser) see(t *testing.T, path string) seen {
	t.Helper()
	page := b.get(t, path)
	read := page.Find(`[data-read="posts.ByID"]`)
	return seen{page.Find("[data-title]").Text(), read.AttrOr("data-server-id", ""), read.AttrOr("data-reason", "")}
}

// submit sends the form of a page with this title, with what else is in it or
// some text, and returns where the answer leads.
func (b *browser) submit(t *testing.T, path, title string) (location string) {
	t.Helper()
	form := b.get(t, path).Find("form.editor")
	fields := url.Values{}
	form.Find("[name]").Each(func(_ int, field *goquery.Selection) {
		fields.Set(field.AttrOr("name", ""), field.AttrOr("value", field.Text()))
	})
	fields.Set("title", title)
	if fields.Get("body") == "" {
		fields.Set("body", "Some text.")
	}
	response, err := b.send(form.AttrOr("action", ""), fields)
	stacktest.Must(t, err)
	if response.StatusCode != http.StatusSeeOther {
		t.Fatalf("POST: %s", response.Status)
	}
	return response.Header.Get("Location")
}

// logIn becomes the admin that the log-in page of a demo offers, who may edit
// every post.
func (b *browser) logIn(t *testing.T) *browser {
	t.Helper()
	form := b.get(t, "/login").Find(".demo-accounts form:has(small)")
	fields := url.Values{}
	form.Find("input").Each(func(_ int, field *goquery.Selection) {
		fields.Set(field.AttrOr("name", ""), field.AttrOr("value", ""))
	})
	b.enter(t, "/login", fields)
	return b
}

// signUp makes an account.
func (b *browser) signUp(t *testing.T) *browser {
	t.Helper()
	b.enter(t, "/signup", url.Values{
		"name": {"Mara"}, "email": {"mara@example.com"}, "password": {"a long password"},
	})
	return b
}

func (b *browser) enter(t *testing.T, path string, fields url.Values) {
	t.Helper()
	response, err := b.send(path, fields)
	stacktest.Must(t, err)
	if response.StatusCode != http.StatusSeeOther {
		t.Fatalf("POST %s: %s", path, response.Status)
	}
}

func (b *browser) send(path string, fields url.Values) (*http.Response, error) {
	response, err := b.client.PostForm(b.site+path, fields)
	if err == nil {
		response.Body.Close()
	}
	return response, err
}
