package kernel

import "sync"

// arena holds the contexts of a run. Nearly every call has one of its own, and its holder may ask it for its error at any
// time, so that a run can't use one twice. The next run can: when a kernel is closed, nothing that it ran is left that could
// ask. Its first contexts are therefore handed on to a later kernel, together with the functions that end them, which saves
// two allocations a call; a run that makes more allocates the others in blocks, which the collector frees.
type arena struct {
	kept []kernelContext
	used int             // of kept
	more []kernelContext // the block that follows, not used yet
}

const (
	// keptContexts is how many a run hands on: as many as most scenarios of the library need, a third of a megabyte.
	keptContexts = 2048
	// contextBlock is how many of the others are allocated together: nearly all live for one call.
	contextBlock = 16
)

// arenas are those that no kernel has. Which one a kernel gets makes no difference: all it finds in one are zero values.
var arenas sync.Pool //detlint:ok no task sees it

func takeArena() *arena {
	if a, _ := arenas.Get().(*arena); a != nil {
		return a
	}
	return &arena{kept: make([]kernelContext, keptContexts)}
}

// context returns a zero context, but for the function that ends it.
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

// giveBack hands the arena on to another kernel. Nothing may use its contexts any more.
func (a *arena) giveBack() {
	a.empty()
	arenas.Put(a)
}

// empty leaves nothing of the run in the arena, but the functions that end its contexts.
func (a *arena) empty() {
	for i := range a.kept[:a.used] {
		c := &a.kept[i]
		*c = kernelContext{end: c.end}
	}
	a.used, a.more = 0, nil
}
