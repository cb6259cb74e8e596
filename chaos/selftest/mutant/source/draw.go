package source

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"slices"
)

// Draw draws the sample: for each operator as many candidates as its quota, in the order of sha256(seed, ID),
// but no more than three of one function. Without that bound a long table, such as the table of transitions,
// would fill the sample: it is one function with hundreds of candidates. An operator with fewer candidates
// than its quota gives all of them. fifth selects the first fifth of each quota instead, which is a sample by
// the same rule. The result is in the order of the operators, and within each in the order of the draw.
//
// refused are the IDs of candidates that are not mutants, because the server refuses their SQL.
//
// The sample of a score is drawn with Seed. Later changes of the core add and remove candidates, and so
// change the sample. The candidates with unchanged IDs keep their order.
func Draw(candidates []*Candidate, seed string, fifth bool, refused ...string) []*Candidate {
	var drawn []*Candidate
	for _, o := range Operators() {
		of := slices.DeleteFunc(slices.Clone(candidates), func(c *Candidate) bool { return c.Operator != o.Name || slices.Contains(refused, c.ID) })
		slices.SortFunc(of, func(a, b *Candidate) int {
			x, y := lotHash(seed, a), lotHash(seed, b)
			return cmp.Or(bytes.Compare(x[:], y[:]), cmp.Compare(a.ID, b.ID))
		})
		quota := o.Quota
		if fifth {
			quota /= 5
		}
		given := map[*function]int{}
		for _, c := range of {
			if given[c.fn] < perFunction && quota > 0 {
				given[c.fn]++
				quota--
				drawn = append(drawn, c)
			}
		}
	}
	return drawn
}

// perFunction is the largest number of candidates of one operator in one function.
const perFunction = 3

func lotHash(seed string, c *Candidate) [sha256.Size]byte {
	return sha256.Sum256([]byte(seed + "\x00" + c.ID))
}

// Spread orders a sample so that every prefix of it has the operators in about the proportion of their
// quotas. So a measurement that is cut short is still a sample.
func Spread(drawn []*Candidate) []*Candidate {
	of, at := map[string]int{}, map[*Candidate]float64{}
	for _, c := range drawn {
		of[c.Operator]++
	}
	seen := map[string]int{}
	for _, c := range drawn {
		seen[c.Operator]++
		at[c] = (float64(seen[c.Operator]) - 0.5) / float64(of[c.Operator])
	}
	return slices.SortedStableFunc(slices.Values(drawn), func(a, b *Candidate) int { return cmp.Compare(at[a], at[b]) })
}
