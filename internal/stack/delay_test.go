package stack_test

import (
	"strings"
	"testing"
	"time"

	"freshread/internal/stack"
)

func TestDelaysThatAnEngineWouldRoundAreRefused(t *testing.T) {
	for _, test := range []struct {
		engine  string
		delay   time.Duration
		refused bool
	}{
		{"postgres", 500 * time.Millisecond, false},
		{"postgres", 500 * time.Microsecond, true},
		{"mysql", 2 * time.Second, false},
		{"mysql", 500 * time.Millisecond, true},
		{"mariadb", 0, false},
		{"mariadb", 1500 * time.Millisecond, true},
	} {
		err := stack.CheckDelay(test.engine, test.delay)
		if (err != nil) != test.refused {
			t.Errorf("%s, %s: got error %v", test.engine, test.delay, err)
		}
		if err != nil && (!strings.Contains(err.Error(), test.engine) || !strings.Contains(err.Error(), test.delay.String())) {
			t.Errorf("error %q names not both %s and %s", err, test.engine, test.delay)
		}
	}
}
