package source

import (
	_ "embed"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"

	"handoff/chaos/mutant/source/score"
)

//go:embed equivalents.yaml
var equivalents []byte

// Equivalents are the mutants with a proof that they behave like the true core.
func Equivalents() ([]score.Equivalent, error) { return readEquivalents(equivalents) }

func readEquivalents(text []byte) ([]score.Equivalent, error) {
	var list []score.Equivalent
	if err := yaml.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("reading equivalents.yaml: %w", err)
	}
	seen := map[string]bool{}
	for _, e := range list {
		switch {
		case e.ID == "" || e.Reader == "" || strings.TrimSpace(e.Proof) == "":
			return nil, fmt.Errorf("equivalents.yaml: the entry %q needs an id, a reader and a proof", e.ID)
		case seen[e.ID]:
			return nil, fmt.Errorf("equivalents.yaml: duplicate entry %q", e.ID)
		}
		seen[e.ID] = true
	}
	return list, nil
}
