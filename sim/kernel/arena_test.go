package kernel

import (
	"context"
	"reflect"
	"testing"
	"time"
)

// A reused arena contains nothing of the previous run except the functions that end its contexts.
func TestReusedArenaIsEmpty(t *testing.T) {
	const some = keptBlock + 2 // enough for two blocks
	a := new(arena)
	ends := 0
	for range some {
		c := a.takeContext()
		*c = kernelContext{
			k: new(Kernel), parent: context.Background(), up: new(kernelContext), err: context.Canceled, deadline: time.Second, hasDeadline: true,
			limited: true, end: func() { ends++ },
		}
	}
	a.clearContexts() // the arena is not returned to the pool, because the end functions set above end no context
	if a.used != 0 || a.more != nil {
		t.Errorf("%d contexts are in use, and %d more are left", a.used, len(a.more))
	}
	for i := range some {
		c := a.kept[i/keptBlock][i%keptBlock]
		c.end()
		c.end = nil
		if !reflect.ValueOf(c).IsZero() {
			t.Errorf("context %d is handed on as %+v", i, c)
		}
	}
	if ends != some {
		t.Errorf("%d of %d functions are kept", ends, some)
	}
}

// A long run keeps at most keptBlocks blocks of contexts for reuse.
func TestArenaKeepsBoundedNumberOfContexts(t *testing.T) {
	a := new(arena)
	for range keptBlocks*keptBlock + 1 {
		a.takeContext()
	}
	if a.clearContexts(); len(a.kept) != keptBlocks || a.used != 0 || a.more != nil {
		t.Errorf("%d blocks are kept, %d contexts are in use, and %d more are left", len(a.kept), a.used, len(a.more))
	}
}
