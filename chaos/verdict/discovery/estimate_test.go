package discovery

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// With a hundred situations, each rarer than the previous, the prediction for twice the runs must be good on
// average.
func TestMorePredictsNewSituations(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	run := func() (shown []uint64) {
		for i := range uint64(100) {
			if r.Float64() < math.Pow(float64(i+1), -1.5) {
				shown = append(shown, i)
			}
		}
		return shown
	}
	predicted, found := 0.0, 0.0
	for range 400 {
		var c Counts
		for range 50 {
			c.Add(run())
		}
		before := c.Summary()
		for range 50 {
			c.Add(run())
		}
		predicted += before.More(50)
		found += float64(c.Summary().Distinct - before.Distinct)
	}
	if math.Abs(predicted-found) > found/10 {
		t.Errorf("predicted %.0f new situations in 400 samples, found %.0f", predicted, found)
	}
}

// The expected figures were computed by hand for 5 runs, 4 situations in one run and 1 in two.
func TestEstimatesMatchPublishedFormulas(t *testing.T) {
	s := countsOf([]uint64{1, 2, 9}, []uint64{3, 9}, []uint64{5, 9}, []uint64{5, 9}, []uint64{7, 9}).Summary()
	if want := (Summary{Runs: 5, Distinct: 6, Once: 4, Twice: 1, Seen: 11}); s != want {
		t.Fatalf("counted %+v, want %+v", s, want)
	}
	if got, want := s.More(1), 6.4*4/(5*6.4+4); math.Abs(got-want) > 1e-9 {
		t.Errorf("one more run: %v, want %v", got, want)
	}
	if got, want := s.Coverage(), 1-4.0/11; math.Abs(got-want) > 1e-9 {
		t.Errorf("coverage %v, want %v", got, want)
	}
	if s.Extrapolates() || (Summary{}).More(1) != 0 || (Summary{}).Coverage() != 0 {
		t.Error("5 runs are too few to extrapolate, and without runs nothing is expected")
	}
}

func TestFailsAtMostFollowsRuleOfThree(t *testing.T) {
	for _, n := range []int{1, 10, 200, 20000} {
		if got, want := FailsAtMost(0, n), 1-math.Pow(0.05, 1/float64(n)); math.Abs(got-want) > 1e-9 {
			t.Errorf("0 of %d: %v, want %v", n, got, want)
		}
	}
	// The value is from tables of the exact one-sided 95 % interval, for 3 of 100.
	if got := fmt.Sprintf("%.4f %.0f", FailsAtMost(3, 100), FailsAtMost(5, 5)); got != "0.0757 1" {
		t.Errorf("3 of 100, and 5 of 5: %s", got)
	}
}
