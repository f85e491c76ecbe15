package auth

import (
	"fmt"
	"net/mail"
	"net/url"
	"strings"
	"unicode/utf8"

	"freshread/internal/web"
)

// The forms hold what was typed, except passwords, and what is wrong with it.

type signUpForm struct {
	Name, Email                          string
	NameError, EmailError, PasswordError string
	password                             string
}

func parseSignUp(fields url.Values) signUpForm {
	f := signUpForm{password: fields.Get("password")}
	f.Name, f.NameError = web.CheckLine(fields.Get("name"), "name", MaxName)
	f.Email, f.EmailError = checkEmail(fields.Get("email"))
	f.PasswordError = checkPassword(f.password)
	return f
}

// CheckSignUp cleans what a program signs somebody up with, and returns what is
// wrong with it, as pairs for web.Invalid.
func CheckSignUp(name, email, password string) (u User, problems []string) {
	f := parseSignUp(url.Values{"name": {name}, "email": {email}, "password": {password}})
	return User{Name: f.Name, Email: f.Email},
		[]string{"name", f.NameError, "email", f.EmailError, "password", f.PasswordError}
}

func (f signUpForm) valid() bool {
	return f.NameError == "" && f.EmailError == "" && f.PasswordError == ""
}

type logInForm struct {
	Email    string
	Next     string // where to go afterwards; a path of this site
	Error    string
	password string
}

func parseLogIn(fields url.Values) logInForm {
	return logInForm{
		Email:    foldEmail(fields.Get("email")),
		Next:     web.LocalPath(fields.Get("next")),
		password: fields.Get("password"),
	}
}

// foldEmail returns an address as accounts have it, or "", which none has.
func foldEmail(typed string) string {
	email, ok := web.Line(typed)
	if !ok {
		return ""
	}
	return strings.ToLower(email)
}

type profileForm struct {
	Name, Bio           string
	NameError, BioError string
}

func parseProfile(fields url.Values) profileForm {
	var f profileForm
	f.Name, f.NameError = web.CheckLine(fields.Get("name"), "name", MaxName)
	if bio := fields.Get("bio"); strings.TrimSpace(bio) != "" {
		f.Bio, f.BioError = web.CheckLine(bio, "description", MaxBio)
	}
	return f
}

func (f profileForm) valid() bool { return f.NameError == "" && f.BioError == "" }

type passwordForm struct {
	CurrentError, PasswordError string
	current, password           string
}

func parsePassword(fields url.Values) passwordForm {
	f := passwordForm{current: fields.Get("current"), password: fields.Get("password")}
	f.PasswordError = checkPassword(f.password)
	return f
}

// checkEmail accepts what people call an address: no name, no comments, no
// quotes, with a dot in the domain. Addresses are compared in lower case.
func checkEmail(typed string) (email, problem string) {
	email, ok := web.Line(typed)
	email = strings.ToLower(email)
	address, err := mail.ParseAddress(email)
	_, domain, _ := strings.Cut(email, "@")
	switch {
	case email == "":
		return email, "Please write your email address."
	case !ok || err != nil || address.Address != email || !strings.Contains(domain, ".") || strings.ContainsAny(email, `" `):
		return email, "This does not look like an email address."
	case len(email) > MaxEmail:
		return email, fmt.Sprintf("The address has %d characters. At most %d fit.", len(email), MaxEmail)
	}
	return email, ""
}

func checkPassword(password string) (problem string) {
	switch n := utf8.RuneCountInString(password); {
	case n < MinPassword:
		return fmt.Sprintf("Please use at least %d characters.", MinPassword)
	case n > MaxPassword:
		return fmt.Sprintf("Please use at most %d characters.", MaxPassword)
	}
	return ""
}

// Limits and lengths for the templates.
func (signUpForm) MaxName() int       { return MaxName }
func (signUpForm) MaxEmail() int      { return MaxEmail }
func (signUpForm) MinPassword() int   { return MinPassword }
func (profileForm) MaxName() int      { return MaxName }
func (profileForm) MaxBio() int       { return MaxBio }
func (passwordForm) MinPassword() int { return MinPassword }
