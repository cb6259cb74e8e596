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

// nowhere is a sink that keeps nothing.
type nowhere struct{}

// Observe implements history.Sink.
func (nowhere) Observe(*history.Event) {}

// An action that fails exits with the code for its reason. One that succeeds has no code.
func TestAnActionFailsByItsExitCode(t *testing.T) {
	for reason, code := range map[execution.Reason]int{execution.Transient: 75, execution.Validation: 65, execution.NoReason: 0} {
		onHost(t, kernel.Options{}, func(k *kernel.Kernel, p *kernel.Process, h host.Host) {
			b := Behaviour{TakesMin: ms, TakesMax: ms, FailReason: reason}
			if reason != execution.NoReason {
				b.FailPerMillion = 1_000_000
			}
			m := NewMachine(k, "machine", map[string]Behaviour{"a": b}, nowhere{})
			run, err := m.Runner(p).Start(context.Background(), worker.Spec{
				Key: execution.Key{ID: 1, Epoch: 1}, Action: execution.Action{Ref: "a"}, Limit: h.Monotonic() + time.Minute, Fence: h.Monotonic() + time.Minute,
			})
			if err != nil {
				t.Fatal(err)
			}
			if exit, err := run.Wait(context.Background()); err != nil || exit.Reason != reason || exit.Code != code {
				t.Errorf("%v: it ended with %+v and %v, want the exit code %d", reason, exit, err, code)
			}
		})
	}
}
