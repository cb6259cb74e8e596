package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"handoff/chaos/history"
)

// What judging a history may need beside the length of its file: judgeMemory in all that Go's runtime holds, judgeLive of
// it in what is still in use. The program itself takes about 29 MB more.
const (
	judgeMemory = 31 << 20
	judgeLive   = 25 << 20
)

// errBudget says that a history needs more memory than it is granted.
var errBudget = errors.New("judging it needs too much memory")

// budget bounds the memory of a judgement by the length of the file: what invariants remember follows what a history
// says, and a history can say that much is open at once.
type budget struct {
	live   uint64
	events int
	sample []metrics.Sample
}

// newBudget sets the runtime's limit of memory, so that it collects before it grows beyond; done takes it back. A pipe has
// no length, so it is granted the fixed part.
func newBudget(file *os.File) (b *budget, done func()) {
	size := int64(0)
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
		size = min(info.Size(), math.MaxInt64/2)
	}
	before, percent := debug.SetMemoryLimit(judgeMemory+size), debug.SetGCPercent(100)
	b = &budget{live: uint64(judgeLive + size), sample: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	return b, func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(before)
	}
}

// watch reads events as next does, and stops when what is in use exceeds the budget.
func (b *budget) watch(next func(*history.Event) error) func(*history.Event) error {
	return func(e *history.Event) error {
		b.events++
		if b.events%16 == 0 {
			metrics.Read(b.sample)
			if used := b.sample[0].Value.Uint64(); used > b.live {
				return fmt.Errorf("%w: %d MB for the first %d events, %d MB are allowed for a file of this length; "+
					"it tells of too much that is open at the same time, so cut it into runs", errBudget, used>>20, b.events, b.live>>20)
			}
		}
		return next(e)
	}
}

// grace is how long a command that was interrupted may take to end by itself.
const grace = 300 * time.Millisecond

// atOnce runs a command that reads, and that leaves nothing behind when it is cut off anywhere: soon after ctx has ended it
// returns, whatever the command is doing, such as waiting for a pipe that nobody writes to.
func (a *app) atOnce(ctx context.Context, command func(context.Context) error) error {
	over := make(chan error, 1)
	go func() { over <- command(ctx) }()
	select {
	case err := <-over:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-over:
		return err
	case <-time.After(grace):
		return broken("interrupted")
	}
}
