package kernel

import "sync"

// arena holds the contexts of a run. Nearly every call has its own context, whose holder may ask
// for its error at any time, so a run can't use a context twice. But the next run can: when a
// kernel is closed, nothing of its run is left that could ask. So a run's first contexts, and the
// functions that end them, pass to a later kernel, which saves two allocations a call. A run that
// makes more allocates the others in blocks, which the collector frees.
type arena struct {
	kept []kernelContext
	used int             // how many of kept are in use
	more []kernelContext // the block that follows, not used yet
}

const (
	// keptContexts is how many contexts a run passes on: as many as most runs of the harness's
	// scenarios need, a third of a megabyte.
	keptContexts = 2048
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
	return &arena{kept: make([]kernelContext, keptContexts)}
}

// context returns a context that is zero except for the function that ends it.
func (a *arena) context() *kernelContext {
	if a.used < len(a.kept) {
		a.used++
		return &a.kept[a.used-1]
	}
	if len(a.more) == 0 {
		a.more = make([]kernelContext, contextBlock)
	}
	c := &a.more[0]
	a.more = a.more[1:]
	return c
}

// giveBack passes the arena on to another kernel. Nothing may use its contexts any more.
func (a *arena) giveBack() {
	a.empty()
	arenas.Put(a)
}

// empty removes everything of the run from the arena, except the functions that end its contexts.
func (a *arena) empty() {
	for i := range a.kept[:a.used] {
		c := &a.kept[i]
		*c = kernelContext{end: c.end}
	}
	a.used, a.more = 0, nil
}
