package woven

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestHeldPanicsWithoutLock(t *testing.T) {
	var m sync.Mutex
	touch := func() (said string) {
		defer func() {
			if p := recover(); p != nil {
				said = fmt.Sprint(p)
			}
		}()
		Held(&m, "a.go:3 touches counter.n")
		return ""
	}
	m.Lock()
	if said := touch(); said != "" {
		t.Errorf("with the lock: %s", said)
	}
	m.Unlock()
	for range 2 { // the second call panics only if the first has left the mutex unlocked
		if said := touch(); !strings.Contains(said, "a.go:3 touches counter.n") {
			t.Errorf("without the lock it says %q", said)
		}
	}
	if !m.TryLock() {
		t.Error("the mutex stays locked")
	}
}
