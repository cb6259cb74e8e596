package reports

import (
	"slices"
	"testing"

	"handoff/chaos/verdict"
	"handoff/core/config"
)

// The folder of a varied run says so, with and without a mutant: the run of the same seed as written
// is another one.
func TestAFolderSaysThatItsRunIsVaried(t *testing.T) {
	run := func(mutant string, varied []string) *verdict.Record {
		return &verdict.Record{Run: verdict.Run{Scenario: "s", Profile: config.Hardened, Seed: 1, Mutant: mutant, Varied: varied, Panic: "boom"}}
	}
	for _, c := range []struct {
		records []*verdict.Record
		want    []string
	}{
		{[]*verdict.Record{run("", nil), run("", []string{"more workers"})}, []string{"s-hardened-1", "s-hardened-varied-1"}},
		{[]*verdict.Record{run("m", nil), run("m", []string{})}, []string{"s-hardened-1", "s-hardened-varied-1"}},
		{[]*verdict.Record{run("", []string{}), run("m", []string{})}, []string{"s-hardened-varied-1", "s-hardened-varied-1-m"}},
	} {
		if got := recordFolders(c.records); !slices.Equal(got, c.want) {
			t.Errorf("folders %q, want %q", got, c.want)
		}
	}
}
