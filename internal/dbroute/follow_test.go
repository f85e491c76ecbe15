package dbroute_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"freshread/internal/dbroute"
	"freshread/internal/stack/stacktest"
)

// following is a context that counts who is to be told of its end.
type following struct {
	context.Context
	done  chan struct{}
	count atomic.Int64
}

func (f *following) Done() <-chan struct{} { return f.done }

// AfterFunc is what package context calls for such a context.
func (f *following) AfterFunc(func()) (stop func() bool) {
	f.count.Add(1)
	return sync.OnceValue(func() bool { f.count.Add(-1); return true })
}

// A program may run writes under one context for as long as it lives.
func TestWriteThatFailsIsNotRememberedByItsContext(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		ctx := &following{Context: stacktest.Context(t), done: make(chan struct{})}
		mine := errors.New("second thoughts")
		for _, outcome := range []error{nil, mine} {
			err := e.Write(ctx, "w", func(context.Context, *dbroute.Tx) error { return outcome })
			if n := ctx.count.Load(); n != 0 || !errors.Is(err, outcome) {
				t.Errorf("%d follow the context of a write that ended with %v", n, err)
			}
		}
	})
}
