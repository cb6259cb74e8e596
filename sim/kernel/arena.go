package kernel

import "sync"

// arena holds the contexts of a run. Nearly every call has its own context, and its holder may read its
// error at any time. So a run can't reuse a context, but the next run can: once a kernel is closed, nothing
// of its run holds one. A run's first contexts, and the functions that end them, therefore pass to a later
// kernel, which saves two allocations a call. Further contexts are allocated in blocks, which the garbage
// collector frees.
type arena struct {
	kept [][]kernelContext // blocks of keptBlock
	used int               // number of contexts in kept that are in use
	more []kernelContext   // unused rest of the latest block beyond kept
}

const (
	// keptBlocks is the largest number of blocks that a run passes on to a later run: a megabyte, enough for
	// nearly all runs of the harness's scenarios. Most runs need only the first block.
	keptBlocks = 3
	keptBlock  = 2048
	// contextBlock is the number of additional contexts that are allocated together; nearly all of them live
	// for one call.
	contextBlock = 16
)

// arenas holds the arenas that no kernel uses. All of their contexts are zero, so it does not matter which
// one a kernel gets.
var arenas sync.Pool //detlint:ok no task sees it

func takeArena() *arena {
	if a, _ := arenas.Get().(*arena); a != nil {
		return a
	}
	return new(arena)
}

// takeContext returns a context that is zero except for the function that ends it.
func (a *arena) takeContext() *kernelContext {
	if a.used < keptBlocks*keptBlock {
		block := a.used / keptBlock
		if block == len(a.kept) {
			a.kept = append(a.kept, make([]kernelContext, keptBlock))
		}
		a.used++
		return &a.kept[block][(a.used-1)%keptBlock]
	}
	if len(a.more) == 0 {
		a.more = make([]kernelContext, contextBlock)
	}
	c := &a.more[0]
	a.more = a.more[1:]
	return c
}

// returnToPool passes the arena on to another kernel. Nothing may use its contexts any more.
func (a *arena) returnToPool() {
	a.clearContexts()
	arenas.Put(a)
}

// clearContexts removes everything of the run from the arena, except the functions that end its contexts.
func (a *arena) clearContexts() {
	for i := range a.used {
		c := &a.kept[i/keptBlock][i%keptBlock]
		*c = kernelContext{end: c.end}
	}
	a.used, a.more = 0, nil
}
