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

// An error of the draw is no answer of the core: rapid panics when a stored example is over.
func TestAPanicOfTheDrawIsNoAnswer(t *testing.T) {
	defer func() {
		if got := recover(); got != "no more draws" {
			t.Errorf("the panic of the draw arrives as %v", got)
		}
	}()
	left := 10
	answers := Ask(InForce(), func(uint64) uint64 {
		if left--; left < 0 {
			panic("no more draws")
		}
		return 0
	})
	t.Errorf("the draw ends, and the answers are %v", answers.Wrong)
}
