package stack

import (
	"context"
	"time"
)

// poll asks until the answer is yes or an error, or until ctx ends: often at
// first, since most waits are short, and less often later.
func poll(ctx context.Context, ask func() (bool, error)) error {
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if yes, err := ask(); yes || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}
