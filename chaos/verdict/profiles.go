package verdict

import (
	"cmp"
	"slices"

	"handoff/core/config"
)

// CompareProfiles orders profiles for readers: the default profile first, then the others in their
// own order, then names that are none.
func CompareProfiles[P ~string](a, b P) int {
	known := config.Profiles()
	rank := func(p P) int {
		if at := slices.Index(known, config.Profile(p)); at >= 0 {
			return at
		}
		return len(known)
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
}
