package discovery

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// counted returns the counts of runs with the given situations.
func counted(runs ...[]uint64) *Counts {
	var c Counts
	for i, r := range runs {
		c.Add(uint64(i+1), r)
	}
	return &c
}

// A world holds the probability with which a run shows each situation. In a clumped world several
// come together.
type world struct {
	chances []float64
	clump   int
}

func (w world) run(r *rand.Rand) (shown []uint64) {
	for i, p := range w.chances {
		if r.Float64() < p {
			for k := range w.clump {
				shown = append(shown, uint64(i*w.clump+k))
			}
		}
	}
	return shown
}

func worlds(name string, n int, steep float64) []float64 {
	p := make([]float64, n)
	for i := range p {
		switch name {
		case "uniform":
			p[i] = steep / float64(n)
		case "Zipf":
			p[i] = math.Pow(float64(i+1), -steep)
		case "geometric":
			p[i] = math.Pow(1-1/(10*steep), float64(i))
		}
	}
	return p
}

func TestTheIntervalHoldsWhatTwiceTheRunsShowInNineOfTenSamples(t *testing.T) {
	const samples = 150
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"uniform", "Zipf", "geometric"}).Draw(t, "distribution")
		n := rapid.IntRange(20, 200).Draw(t, "situations")
		w := world{worlds(name, n, rapid.Float64Range(1, 2).Draw(t, "steep")), 1}
		runs := rapid.SampledFrom([]int{20, 50, 100}).Draw(t, "runs")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		held, off := 0, 0.0
		for range samples {
			var c Counts
			for s := range runs {
				c.Add(uint64(s), w.run(r))
			}
			before := c.Incidence()
			for s := range runs {
				c.Add(uint64(runs+s), w.run(r))
			}
			e, found := before.More(runs), float64(len(c.seen)-before.Distinct())
			off += e.Situations - found
			if e.Low <= found && found <= e.High {
				held++
			}
		}
		// 90 % minus three standard deviations of a sample.
		if share := float64(held) / samples; share < 0.9-3*math.Sqrt(0.09/samples) {
			t.Fatalf("%d %s situations, %d runs: the interval held in %d of %d samples; the estimate is %.1f too high on average", n, name, runs, held, samples, off/samples)
		}
	})
}

func TestSituationsThatComeTogetherWidenTheInterval(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	held, samples := 0, 200
	for range samples {
		w := world{worlds("geometric", 60, 1), 5}
		var c Counts
		for s := range 100 {
			c.Add(uint64(s), w.run(r))
		}
		before := c.Incidence()
		for s := range 100 {
			c.Add(uint64(100+s), w.run(r))
		}
		if e, found := before.More(100), float64(len(c.seen)-before.Distinct()); e.Low <= found && found <= e.High {
			held++
		}
	}
	if held < samples*85/100 {
		t.Errorf("five situations come at a time: the interval held in %d of %d samples", held, samples)
	}
}

// The mean over every choice of runs, computed the long way.
func TestTheExpectedNumberIsTheMeanOverEveryChoiceOfRuns(t *testing.T) {
	runs := [][]uint64{{1, 2, 3}, {1, 2}, {1, 4, 5}, {1}, {1, 2, 6}}
	i := counted(runs...).Incidence()
	for m := range len(runs) + 1 {
		sum, choices := 0, 0
		for choice := range 1 << len(runs) {
			seen, chosen := make(map[uint64]bool), 0
			for k, r := range runs {
				if choice>>k&1 == 1 {
					chosen++
					for _, f := range r {
						seen[f] = true
					}
				}
			}
			if chosen == m {
				sum, choices = sum+len(seen), choices+1
			}
		}
		if got, want := i.Expected(m), float64(sum)/float64(choices); math.Abs(got-want) > 1e-9 {
			t.Errorf("%d of %d runs: %v situations, want %v", m, len(runs), got, want)
		}
	}
}

// The figures come from the formulas, computed by hand: 5 runs, 3 situations in one run, 1 in two.
func TestTheEstimatesAreThoseOfTheFormulas(t *testing.T) {
	i := counted([]uint64{1, 2, 9}, []uint64{3, 9}, []uint64{5, 9}, []uint64{5, 9}, []uint64{7, 9}).Incidence()
	if i.Distinct() != 6 || i.In(1) != 4 || i.In(2) != 1 || i.In(5) != 1 || i.In(3) != 0 {
		t.Fatalf("counted %+v", i)
	}
	if want := (6.0 + 20) / (4 + 5); i.Clump != want { // two came together, two alone: 4 + 1 + 1 for 4
		t.Errorf("clump %v, want %v", i.Clump, want)
	}
	if got, want := unseen(4, 1, 5), 4.0/5*16/2; math.Abs(got-want) > 1e-9 {
		t.Errorf("Chao2: %v, want %v", got, want)
	}
	if got, want := more(4, 1, 5, 1), 6.4*4/(5*6.4+4); math.Abs(got-want) > 1e-9 {
		t.Errorf("one more run: %v, want %v", got, want)
	}
	if got, want := i.Coverage(), 1-4.0/11*16/(16+2); math.Abs(got-want) > 1e-9 {
		t.Errorf("coverage %v, want %v", got, want)
	}
}

func TestWhereNothingWasSeenOnceAFewMayComeAllTheSame(t *testing.T) {
	i := Incidence{Runs: 100, Seen: []Frequency{{50, 7}, {100, 3}}, Clump: usualClump}
	if e := i.More(100); e != (Estimate{0, 0, 6}) {
		t.Errorf("%+v", e)
	}
	if got := i.Coverage(); got != 1 {
		t.Errorf("coverage %v", got)
	}
}

func TestTooFewRunsExtrapolateNothing(t *testing.T) {
	few := counted([]uint64{1}, []uint64{2}).Incidence()
	if few.Extrapolates() || len(few.Curve(10)) != 2 {
		t.Errorf("2 runs: %+v", few.Curve(10))
	}
	none := new(Counts).Incidence()
	if none.Coverage() != 0 || len(none.Curve(10)) != 0 || none.Expected(0) != 0 {
		t.Errorf("no runs: %+v", none)
	}
}

func TestTheCurveGoesThroughWhatWasSeen(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	var c Counts
	w := world{worlds("Zipf", 100, 1.2), 1}
	for s := range 60 {
		c.Add(uint64(s), w.run(r))
	}
	i := c.Incidence()
	curve := i.Curve(6)
	if len(curve) != 12 || curve[5].Runs != 60 || curve[11].Runs != 120 || math.Abs(curve[5].Situations-float64(i.Distinct())) > 1e-9 {
		t.Fatalf("%+v", curve)
	}
	for k := 1; k < len(curve); k++ {
		if a, b := curve[k-1], curve[k]; b.Situations < a.Situations || b.Low > b.Situations || b.High < math.Floor(b.Situations) {
			t.Errorf("%+v, and then %+v", a, b)
		}
	}
}

func TestNoneOfManyRunsFailedIsTheRuleOfThree(t *testing.T) {
	for _, n := range []int{1, 10, 200, 20000} {
		if got, want := FailsAtMost(0, n), 1-math.Pow(0.05, 1/float64(n)); math.Abs(got-want) > 1e-9 {
			t.Errorf("0 of %d: %v, want %v", n, got, want)
		}
	}
	if got := FailsAtMost(0, 1000); math.Abs(got*1000-3) > 0.01 {
		t.Errorf("0 of 1000: %v, which is not 3/1000", got)
	}
	// From tables of the exact interval: 3 of 100 with 95 % on one side.
	if got := fmt.Sprintf("%.4f %.0f", FailsAtMost(3, 100), FailsAtMost(5, 5)); got != "0.0757 1" {
		t.Errorf("3 of 100, and 5 of 5: %s", got)
	}
}
