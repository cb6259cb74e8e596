package history_test

import (
	"bytes"
	"testing"

	"handoff/chaos/history"
)

// Exit codes do not change the hash, so the hash of an older history without them stays valid.
func TestExitCodeIsNotHashed(t *testing.T) {
	for kind, hashed := range map[history.Kind]bool{history.ActionEnded: false, history.Transition: true} {
		a, b := history.Event{Kind: kind, Count: 75}, history.Event{Kind: kind}
		if same := bytes.Equal(a.AppendBinary(nil), b.AppendBinary(nil)); same == hashed {
			t.Errorf("the count of %v is hashed: %v, want %v", kind, !same, hashed)
		}
	}
}
