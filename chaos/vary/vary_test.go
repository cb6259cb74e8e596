package vary_test

import (
	"testing"

	"handoff/chaos/vary"
	"handoff/scenarios"
)

func BenchmarkOf(b *testing.B) {
	all, err := scenarios.Library()
	if err != nil {
		b.Fatal(err)
	}
	refused, edits := 0, 0
	for i := 0; b.Loop(); i++ {
		s := all[i%len(all)]
		v, err := vary.Of(s, s.Profiles[0], uint64(i))
		if err != nil {
			b.Fatal(err)
		}
		refused += v.Refused
		edits += len(v.Changes)
	}
	b.Logf("%d refused beside %d", refused, edits)
}
