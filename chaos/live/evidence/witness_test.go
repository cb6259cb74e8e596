package evidence

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// The end of a container ends its running actions, and each of them only once. Actions that had ended before
// don't end a second time.
func TestContainerEndEndsItsActions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "witness")
	lines := `{"event":"start","execution":1,"epoch":1,"wall_ns":1000,"mono_ns":1000}
{"event":"end","execution":1,"epoch":1,"wall_ns":2000,"mono_ns":2000,"how":{}}
{"event":"start","execution":2,"epoch":3,"wall_ns":3000,"mono_ns":3000}
`
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	w := NewWitness(path, "shell-1", start)
	var ended []history.Event
	take := func(e *history.Event) {
		if e.Kind == history.ActionEnded && e.Execution == 2 {
			ended = append(ended, *e)
		}
	}
	w.Over(start.Add(time.Second), take)
	w.Over(start.Add(2*time.Second), take)
	if len(ended) != 1 || ended[0].Epoch != 3 || ended[0].To != execution.Cancelled || ended[0].At != time.Second {
		t.Errorf("execution 2 ended as %+v", ended)
	}
	if items, err := w.Items(); err != nil || len(items) != 4 || w.Alive() != 0 {
		t.Errorf("%d items, %d alive, %v", len(items), w.Alive(), err)
	}
}
