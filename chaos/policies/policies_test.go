package policies

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"handoff/core/broker"
	"handoff/core/execution"
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

// Whichever draw panics, the caller gets the panic, and the core is not blamed for it.
func TestAPanicOfTheDrawIsNoAnswer(t *testing.T) {
	for fails := 0; ; fails += 7 {
		draws := 0
		err, answers := func() (err any, answers Answers) {
			defer func() { err = recover() }()
			return nil, Ask(InForce(), func(uint64) uint64 {
				if draws++; draws == fails+1 {
					panic("no more draws")
				}
				return 0
			})
		}()
		if draws <= fails {
			return // there are no more draws to fail
		}
		if err != "no more draws" {
			t.Fatalf("draw %d fails, the caller gets %v, and wrong is: %v", fails+1, err, answers.Wrong)
		}
	}
}

// Loses says whether a consumer gets less, or something else, than the sender's envelope: it
// compares nothing, because it is asked about every message of a run.
func TestLosesSaysWhetherAMessageCarriesItsEnvelope(t *testing.T) {
	lost := 0
	for seed := range uint64(2000) {
		a := &asker{core: InForce(), draw: Lots(seed, "loses")}
		e := a.envelope()
		for i := range e.Dispatches {
			d := &e.Dispatches[i]
			if a.oneIn(2) {
				d.Parameters = nil
			}
			d.Action.Concurrency, d.Action.PutBy = pick(a, 0, 0, 0, 5), pick(a, "", "", "", "somebody")
			d.Action.RetriedExitCodes = pick(a, execution.ExitCodes{}, execution.ExitCodes{}, execution.NewExitCodes(7))
		}
		body, err := broker.Encode(&e)
		if err != nil {
			t.Fatal(err)
		}
		read, err := broker.Decode(body)
		if err != nil {
			t.Fatal(err)
		}
		if d := difference(&e, &read); d != "" {
			t.Fatalf("seed %d: read with %s", seed, d)
		}
		// Parameters are always encoded, although most arrive as they were sent.
		same := reflect.DeepEqual(e, read) && !slices.ContainsFunc(e.Dispatches, func(d broker.Dispatch) bool { return d.Parameters != nil })
		if Loses(&e) == same {
			t.Fatalf("seed %d: Loses says %v of %+v, which is read as %+v", seed, !same, e, read)
		}
		if !same {
			lost++
		}
	}
	if lost < 200 || lost > 1800 {
		t.Errorf("%d of 2000 messages don't carry their envelope", lost)
	}
}
