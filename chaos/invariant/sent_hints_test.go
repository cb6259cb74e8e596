package invariant

import "testing"

// Each id has its own position, even ids of unusual forms, which a mutant may produce.
func TestEachHintHasSeparatePosition(t *testing.T) {
	ids := []string{"executor-1/7", "executor-1/8", "worker-1/7", "a/b/7", "executor-1/07", "executor-1/0", "executor-1/", "/7", "7", "", "executor-1/+7", "executor-1/18446744073709551616"}
	h := newSentHints()
	for _, id := range ids {
		at := h.positionOf(id)
		if got := at.table.Get(at.number); got != nil {
			t.Errorf("%q has the position of %q", id, got.id)
		}
		at.table.Set(at.number, &publishedHint{id: id, position: at})
	}
	for _, id := range ids {
		at := h.positionOf(id)
		if got := at.table.Get(at.number); got == nil || got.id != id {
			t.Errorf("%q was found as %v", id, got)
		}
	}
	// A new id must not get the position of an id that is still in use.
	forget := func(id string) { h.forgetHint(&publishedHint{id: id, position: h.positionOf(id)}) }
	forget("7")
	if at := h.positionOf("8"); at.table.Get(at.number) != nil {
		t.Errorf("a new id has the position of %q", at.table.Get(at.number).id)
	}
	for _, id := range append(ids, "8") {
		forget(id)
	}
	if len(h.byName)+len(h.oddly)+h.odd.Len() != 0 {
		t.Errorf("all hints are forgotten, and %v and %v remain", h.byName, h.oddly)
	}
}
