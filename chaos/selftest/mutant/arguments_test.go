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

func TestAMutantIsTakenFromTheCommandLineByItsOldNameToo(t *testing.T) {
	name := plantable(t)
	for given, notice := range map[string]string{flag: "", oldFlag: "--flaw is called --mutant now\n"} {
		var said strings.Builder
		m, rest, err := FromArguments([]string{"--config", "x.yaml", given, name, "--log-level=debug"}, &said)
		if err != nil || m == nil || m.Name != name || !slices.Equal(rest, []string{"--config", "x.yaml", "--log-level=debug"}) {
			t.Errorf("%s: %v, %q, %v", given, m, rest, err)
		}
		if said.String() != notice {
			t.Errorf("%s says %q, want %q", given, said.String(), notice)
		}
	}
	if m, rest, err := FromArguments([]string{strings.TrimPrefix(flag, "--"), name}, &strings.Builder{}); m != nil || len(rest) != 2 || err != nil {
		t.Errorf("without a flag: %v, %q, %v", m, rest, err)
	}
	if _, _, err := FromArguments([]string{flag, name, oldFlag, name}, &strings.Builder{}); err == nil || !strings.Contains(err.Error(), "planted already") {
		t.Errorf("two mutants: %v", err)
	}
}
