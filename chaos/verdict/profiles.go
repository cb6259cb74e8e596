package verdict

import (
	"cmp"
	"slices"

	"handoff/core/config"
)

// CompareProfiles orders profiles for readers: known profiles in the order of config.Profiles, then unknown
// names.
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
