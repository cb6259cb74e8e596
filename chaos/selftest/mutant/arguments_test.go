package mutant

import (
	"slices"
	"strings"
	"testing"
)

// plantable is a mutant that a real daemon can have.
func plantable(t *testing.T) string {
	t.Helper()
	for _, m := range All() {
		if m.Lacks() == "" {
			return m.Name
		}
	}
	t.Fatal("no mutant can be planted into a daemon")
	return ""
}

func TestFromArguments(t *testing.T) {
	name := plantable(t)
	m, rest, err := FromArguments([]string{"--config", "x.yaml", flag, name, "--log-level=debug"})
	if err != nil || m == nil || m.Name != name || !slices.Equal(rest, []string{"--config", "x.yaml", "--log-level=debug"}) {
		t.Errorf("%v, %q, %v", m, rest, err)
	}
	if m, rest, err := FromArguments([]string{strings.TrimPrefix(flag, "--"), name}); m != nil || len(rest) != 2 || err != nil {
		t.Errorf("without a flag: %v, %q, %v", m, rest, err)
	}
	if _, _, err := FromArguments([]string{flag, name, flag, name}); err == nil || !strings.Contains(err.Error(), "planted already") {
		t.Errorf("two mutants: %v", err)
	}
}
