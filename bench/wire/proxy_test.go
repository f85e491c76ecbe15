package wire_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"testing"

	"freshread/bench/wire"
)

// echo answers each line with the same line, in two pieces.
func echo(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for lines := bufio.NewScanner(c); lines.Scan(); {
					fmt.Fprint(c, lines.Text())
					fmt.Fprint(c, "\n")
				}
			}()
		}
	}()
	return l.Addr().String()
}

func TestRoundTripsAreCounted(t *testing.T) {
	p, err := wire.Listen(echo(t))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		c, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		answers := bufio.NewReader(c)
		for range 3 {
			io.WriteString(c, "in ") // half of a question is none
			io.WriteString(c, "two\n")
			if got, err := answers.ReadString('\n'); err != nil || got != "in two\n" {
				t.Fatalf("got %q, %v", got, err)
			}
		}
	}
	if got := p.RoundTrips(); got != 6 {
		t.Errorf("%d round trips, want 6", got)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
