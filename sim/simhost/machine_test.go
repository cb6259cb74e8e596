package simhost

import (
	"context"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/worker"
	"handoff/sim/kernel"
)

// ends is a sink that keeps the events of actions that end.
type ends []history.Event

// Observe implements history.Sink.
func (en *ends) Observe(e *history.Event) {
	if e.Kind == history.ActionEnded {
		*en = append(*en, *e)
	}
}

// A failing action exits with the code for its reason, or with one of the exit codes of its scenario. An
// action that succeeds, or gives its reason in words, has no code. The machine's event has the scenario's
// reason, and the exit the reason that the core derives from the row's codes.
func TestActionFailsWithItsExitCode(t *testing.T) {
	declared := execution.NewExitCodes(65, 200)
	for _, c := range []struct {
		name        string
		b           Behaviour
		row         execution.ExitCodes
		code        int
		exit, truth execution.Reason
	}{
		{"for a reason", Behaviour{FailReason: execution.Transient}, execution.ExitCodes{}, 75, execution.Transient, execution.Transient},
		{"for a reason that is not retried", Behaviour{FailReason: execution.Validation}, execution.ExitCodes{}, 65, execution.Validation, execution.Validation},
		{"in words", Behaviour{FailReason: execution.Rejected}, declared, 0, execution.Rejected, execution.Rejected},
		{"with a code", Behaviour{FailCodes: []int{200}}, execution.ExitCodes{}, 200, execution.Unknown, execution.Unknown},
		{"with a declared code", Behaviour{FailCodes: []int{200}, Retried: []int{65, 200}}, declared, 200, execution.Transient, execution.Transient},
		{"with a declared code of its reason", Behaviour{FailReason: execution.Validation, Retried: []int{65, 200}}, declared, 65, execution.Transient, execution.Transient},
		{"with a declared code that the row lacks", Behaviour{FailCodes: []int{200}, Retried: []int{65, 200}}, execution.ExitCodes{}, 200, execution.Unknown, execution.Transient},
		{"not at all", Behaviour{}, declared, 0, execution.NoReason, execution.NoReason},
	} {
		onHost(t, kernel.Options{}, func(k *kernel.Kernel, p *kernel.Process, h host.Host) {
			c.b.TakesMin, c.b.TakesMax = ms, ms
			if c.truth != execution.NoReason {
				c.b.FailPerMillion = 1_000_000
			}
			var seen ends
			m := NewMachine(k, "machine", map[string]Behaviour{"a": c.b}, &seen)
			run, err := m.Runner(p).Start(context.Background(), worker.Spec{
				Key: execution.Key{ID: 1, Epoch: 1}, Action: execution.Action{Ref: "a", RetriedExitCodes: c.row}, Limit: h.Monotonic() + time.Minute, Fence: h.Monotonic() + time.Minute,
			})
			if err != nil {
				t.Fatal(err)
			}
			if exit, err := run.Wait(context.Background()); err != nil || exit.Reason != c.exit || exit.Code != c.code {
				t.Errorf("%s: it ended with %+v and %v, want the exit code %d and %v", c.name, exit, err, c.code, c.exit)
			}
			if len(seen) != 1 || seen[0].Reason != c.truth || seen[0].Count != int64(c.code) {
				t.Errorf("%s: the machine says %+v, want the exit code %d and %v", c.name, seen, c.code, c.truth)
			}
		})
	}
}
