package source

import (
	_ "embed"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"

	"handoff/chaos/selftest/mutant/source/score"
)

//go:embed equivalents.yaml
var equivalents []byte

// Equivalents reads equivalents.yaml: the mutants with a proof that they behave like the unchanged
// core, and the role of the reader who proved it. The adjusted score leaves them out.
func Equivalents() ([]score.Equivalent, error) { return readEquivalents(equivalents) }

func readEquivalents(text []byte) ([]score.Equivalent, error) {
	var list []score.Equivalent
	if err := yaml.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("reading equivalents.yaml: %w", err)
	}
	seen := map[string]bool{}
	for i, e := range list {
		switch {
		case e.ID == "" || e.Reader == "" || strings.TrimSpace(e.Proof) == "":
			return nil, fmt.Errorf("equivalents.yaml: entry %d (%q) needs an id, a reader and a proof", i+1, e.ID)
		case seen[e.ID]:
			return nil, fmt.Errorf("equivalents.yaml: duplicate entry %q; keep one proof for a mutant", e.ID)
		}
		seen[e.ID] = true
	}
	return list, nil
}
