package kernel

import (
	"context"
	"reflect"
	"testing"
	"time"
)

// A new user of an arena finds nothing of the run before except the functions that end its
// contexts.
func TestAnArenaIsHandedOnEmpty(t *testing.T) {
	a := &arena{kept: make([]kernelContext, 2)}
	ends := 0
	for range 2 {
		c := a.context()
		*c = kernelContext{
			k: new(Kernel), parent: context.Background(), up: new(kernelContext), err: context.Canceled, deadline: time.Second, hasDeadline: true,
			limited: true, end: func() { ends++ },
		}
	}
	a.context()
	a.empty() // and not given back: its functions end no context
	if a.used != 0 || a.more != nil {
		t.Errorf("%d contexts are in use, and %d more are left", a.used, len(a.more))
	}
	for i := range a.kept {
		c := a.kept[i]
		c.end()
		c.end = nil
		if !reflect.ValueOf(c).IsZero() {
			t.Errorf("context %d is handed on as %+v", i, c)
		}
	}
	if ends != 2 {
		t.Errorf("%d of 2 functions are kept", ends)
	}
}
