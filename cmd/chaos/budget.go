package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"handoff/chaos/history"
)

// Limits on the memory for judging a history, to which the length of its file is added: judgeMemory for the
// Go runtime's memory, judgeLive for live memory. The program itself takes about 29 MB more.
const (
	judgeMemory = 31 << 20
	judgeLive   = 25 << 20
)

// errBudget means that judging a history needs more memory than allowed.
var errBudget = errors.New("judging it needs too much memory")

// budget limits a judgement's memory by the length of the file. The invariants' memory depends on a history's
// content, which can claim that many executions and messages are open at once.
type budget struct {
	live   uint64
	events int
	sample []metrics.Sample
}

// newBudget sets the runtime's memory limit, so that Go collects garbage before reaching it; done restores
// the old limit. A pipe has no length, so it gets only the fixed part.
func newBudget(file *os.File) (b *budget, done func()) {
	size := int64(0)
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
		size = min(info.Size(), math.MaxInt64/2)
	}
	// The metric shows the live memory at the last collection, which may be long ago.
	runtime.GC()
	before, percent := debug.SetMemoryLimit(judgeMemory+size), debug.SetGCPercent(100)
	b = &budget{live: uint64(judgeLive + size), sample: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	return b, func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(before)
	}
}

// limitReads wraps next, and stops when the memory in use exceeds the budget.
func (b *budget) limitReads(next func(*history.Event) error) func(*history.Event) error {
	return func(e *history.Event) error {
		b.events++
		if b.events%16 == 0 {
			metrics.Read(b.sample)
			if used := b.sample[0].Value.Uint64(); used > b.live {
				return fmt.Errorf("%w: %d MB for the first %d events, %d MB are allowed for a file of this length; "+
					"too much in it is open at the same time, so split it into runs", errBudget, used>>20, b.events, b.live>>20)
			}
		}
		return next(e)
	}
}

// interruptGrace is how long an interrupted command may take to end by itself.
const interruptGrace = 300 * time.Millisecond

// atOnce runs a command that only reads, and so can be abandoned at any point. It returns soon after ctx has
// ended, even if the command is blocked, for example on a pipe without a writer.
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
	case <-time.After(interruptGrace):
		return harnessError("interrupted")
	}
}
