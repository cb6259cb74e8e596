package planted

import (
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"handoff/chaos/mutant"
)

// A mutant that a real daemon can have.
func plantable(t *testing.T) string {
	t.Helper()
	for _, m := range mutant.All() {
		if m.Lacks() == "" {
			return m.Name
		}
	}
	t.Fatal("no mutant can be planted into a daemon")
	return ""
}

// saidBy is what f writes to standard error.
func saidBy(t *testing.T, f func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stderr
	os.Stderr = w
	defer func() { os.Stderr = before }()
	f()
	_ = w.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAMutantIsTakenFromTheCommandLineByItsOldNameToo(t *testing.T) {
	name := plantable(t)
	for given, notice := range map[string]string{flag: "", oldFlag: "--flaw is called --mutant now\n"} {
		said := saidBy(t, func() {
			m, rest := FromArguments([]string{"--config", "x.yaml", given, name, "--log-level=debug"})
			if m == nil || m.Name != name || !slices.Equal(rest, []string{"--config", "x.yaml", "--log-level=debug"}) {
				t.Errorf("%s: %v, %q", given, m, rest)
			}
		})
		if said != notice {
			t.Errorf("%s says %q, want %q", given, said, notice)
		}
	}
	if m, rest := FromArguments([]string{strings.TrimPrefix(flag, "--"), name}); m != nil || len(rest) != 2 {
		t.Errorf("without a flag: %v, %q", m, rest)
	}
}
