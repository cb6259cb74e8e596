package contexts

import (
	"context"
	"time"
)

type key struct{}

// own is what a kernel's context looks like: it declares Done, which is no use of it.
type own struct{ context.Context }

func (own) Done() <-chan struct{} { return nil }

// ticket has a Done too, but is no context.
type ticket struct{}

func (ticket) Done() bool { return true }

func bad(ctx context.Context) {
	_, c1 := context.WithCancel(ctx)                // want `context\.WithCancel: the kernel can't see it end`
	_, c2 := context.WithTimeout(ctx, time.Second)  // want `context\.WithTimeout`
	_, c3 := context.WithDeadline(ctx, time.Time{}) // want `context\.WithDeadline`
	_, c4 := context.WithCancelCause(ctx)           // want `context\.WithCancelCause`
	_ = context.WithoutCancel(ctx)                  // want `context\.WithoutCancel`
	context.AfterFunc(ctx, func() {})               // want `context\.AfterFunc`
	_ = ctx.Done()                                  // want `Done of a context`
	_ = own{ctx}.Done()                             // want `Done of a context`
	done := ctx.Done                                // want `Done of a context`
	_, _, _, _, _ = c1, c2, c3, c4, done
}

func good(ctx context.Context) error {
	ctx = context.WithValue(ctx, key{}, 1)
	_ = context.Background()
	_ = ticket{}.Done()
	return ctx.Err()
}
