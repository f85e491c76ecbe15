package web

import "testing"

func TestLocalPath(t *testing.T) {
	for _, path := range []string{"/", "/posts/1?before=2#comments", "/posts/é", "/a b"} {
		if got := LocalPath(path); got != path {
			t.Errorf("%q becomes %q", path, got)
		}
	}
	for _, path := range []string{
		"", "posts", "https://example.com", "//example.com", `/\example.com`, "/\t/example.com", "/\n/example.com", "/\r/example.com",
		"/\x00x", "/\x01x", "/\x1b", "/\x7f", "/\u0085",
	} {
		if got := LocalPath(path); got != "/" {
			t.Errorf("%q becomes %q", path, got)
		}
	}
}
