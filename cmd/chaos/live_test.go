package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// frozen is a scenario that the live world can't run.
const frozen = calm + `worlds: [sim]
faults:
  - {when: {at: 2s}, freeze: shell-1, for: 5s}
`

// What the live world can't do is said before anything is started: by lint, and by a run that names it.
func TestWhatTheLiveWorldLacks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "frozen.yaml")
	if err := os.WriteFile(file, []byte(frozen), 0o600); err != nil {
		t.Fatal(err)
	}
	chaos(t, "lint", file).wants(t, 0, "live world: not expressible: it has no freeze")
	chaos(t, "run", file, "--world", "live").wants(t, 2, "not expressible in the live world: it has no freeze")
	chaos(t, "run", "worker-frozen", "--world", "live").wants(t, 2, "worker-frozen", "live")
	chaos(t, "list", "--faults").wants(t, 0, "simulated world only: its processes and servers share one machine and its clocks")
}

// A sweep counts what it could not run and what it ran again.
func TestWhatDoesNotCountIsCounted(t *testing.T) {
	got := liveCounts([]string{"left out: a", notExpressible + "b", notExpressible + "c"}, 1)
	want := []string{
		"2 scenarios not expressible in the live world: each is named with the reason",
		"1 run repeated because the machine stood still for too long",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := liveCounts([]string{"left out: a"}, 0); got != nil {
		t.Errorf("%q, want nothing", got)
	}
}
