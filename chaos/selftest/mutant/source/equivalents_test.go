package source

import (
	"strings"
	"testing"
)

func TestEveryEquivalentHasProofAndReader(t *testing.T) {
	if _, err := Equivalents(); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"- id: a\n  reader: b", "- {id: a, proof: p}", "- {reader: b, proof: p}"} {
		if _, err := readEquivalents([]byte(text)); err == nil || !strings.Contains(err.Error(), "needs an id, a reader and a proof") {
			t.Errorf("%q: %v", text, err)
		}
	}
	entry := "- {id: a, reader: b, proof: p}\n"
	if list, err := readEquivalents([]byte(entry)); err != nil || len(list) != 1 {
		t.Errorf("a whole entry: %v, %v", list, err)
	}
	if _, err := readEquivalents([]byte(entry + entry)); err == nil {
		t.Error("a duplicate is taken")
	}
}
