package kernel

import "sync"

// arena holds the contexts of a run. Nearly every call has its own context, whose holder may ask
// for its error at any time, so a run can't use a context twice. But the next run can: when a
// kernel is closed, nothing of its run is left that could ask. So a run's first contexts, and the
// functions that end them, pass to a later kernel, which saves two allocations a call. A run that
// makes more allocates the others in blocks, which the collector frees.
type arena struct {
	kept [][]kernelContext // blocks of keptBlock
	used int               // how many contexts of kept are in use
	more []kernelContext   // the block that follows, not used yet
}

const (
	// keptBlocks is how many blocks of contexts a run passes on at most: as many as nearly all runs
	// of the harness's scenarios need, a megabyte. Most runs need the first block only.
	keptBlocks = 3
	keptBlock  = 2048
	// contextBlock is how many further contexts are allocated together: nearly all live for one
	// call.
	contextBlock = 16
)

// arenas are the arenas that no kernel uses. It makes no difference which of them a kernel gets,
// because all its values are zero.
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
