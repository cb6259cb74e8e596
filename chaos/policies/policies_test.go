package policies

import (
	"fmt"
	"testing"
)

// The core's answers are the contract's, for every draw. Each kind of question is asked, and the
// same seed asks the same questions.
func TestTheCoreAnswersAsTheContractSays(t *testing.T) {
	for seed := range uint64(3000) {
		a, again := Ask(InForce(), Lots(seed, "test")), Ask(InForce(), Lots(seed, "test"))
		for _, wrong := range a.Wrong {
			t.Errorf("seed %d: %s", seed, wrong)
		}
		if fmt.Sprint(a) != fmt.Sprint(again) {
			t.Fatalf("seed %d: %v, and asked again %v", seed, a, again)
		}
		if t.Failed() {
			return
		}
	}
}

func BenchmarkAsk(b *testing.B) {
	core := InForce()
	for n := 0; b.Loop(); n++ {
		Ask(core, Lots(uint64(n), "bench"))
	}
}

func BenchmarkSubjects(b *testing.B) {
	for i, name := range Subjects() {
		b.Run(name, func(b *testing.B) {
			for n := 0; b.Loop(); n++ {
				a := &asker{core: InForce(), draw: Lots(uint64(n), "bench")}
				a.subjects()[i].ask()
			}
		})
	}
}
