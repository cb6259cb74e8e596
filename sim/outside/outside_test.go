// Package outside is a separate test binary, so that no other test has the kinds of faults that it registers.
package outside

import (
	"fmt"
	"strings"
	"testing"

	"handoff/chaos/fault"
	"handoff/chaos/history"
	"handoff/chaos/scenario"
	"handoff/core/config"
	"handoff/core/config/yamlfile"
	"handoff/sim"
)

// These kinds are registered from another package, as by a program that imports this module. Such a package
// can only use exported names; this test shows that they suffice.
func init() {
	fault.Register(fault.Kind{
		Name: "stutter", Ends: fault.ByItself,
		About:   "a worker is killed and started again, some times in a row",
		Example: "stutter: {of: shell-1, times: 2}",
		Keys: []yamlfile.Key{
			yamlfile.Required("of", "the worker", yamlfile.StringSchema()),
			yamlfile.Required("times", "how often", yamlfile.IntegerSchema(1, 10)),
		},
	}, (*stutter).inject)
	fault.Register(fault.Kind{
		Name: "tremor", Ends: fault.WithFor,
		About:   "the ground shakes below a worker",
		Example: "tremor: shell-1, for: 10s",
	}, (*tremor).inject)
	fault.Register(fault.Kind{
		Name: "standstill", Ends: fault.ByItself,
		About:   "a machine stands still for a moment",
		Example: "standstill: shell-1",
	}, (*standstill).inject)
}

// stutter needs only interfaces that every world offers.
type stutter struct {
	Worker string
	Times  int
}

func (s *stutter) Read(r *fault.Reader) {
	s.Worker = r.Worker(r.At("of"))
	if n := r.At("times"); n != nil {
		times, _ := r.Integer(n, "times", 1, 10)
		s.Times = int(times)
	}
}

func (s *stutter) Strikes() fault.Strikes { return fault.Strikes{Target: s.Worker} }

func (s *stutter) inject(x *fault.Injection, w fault.Processes) (func(), error) {
	p := w.Process(x.Targets[0])
	for range s.Times {
		if p.Alive() {
			x.Touch(fault.Touched{Process: p.Name()})
		}
		p.Kill()
		p.Start()
	}
	x.End()
	return nil, nil
}

// seismic is a new interface, which no world implements.
type seismic interface {
	fault.Processes
	Shake(x *fault.Injection) (end func(), err error)
}

type tremor struct{ Target string }

func (t *tremor) Read(r *fault.Reader)   { t.Target = r.Worker(r.Value) }
func (t *tremor) Strikes() fault.Strikes { return fault.Strikes{Target: t.Target} }

func (*tremor) inject(x *fault.Injection, w seismic) (func(), error) { return w.Shake(x) }

// standstill needs machines, which only the simulator offers.
type standstill struct{ Target string }

func (s *standstill) Read(r *fault.Reader)   { s.Target = r.Process(r.Value) }
func (s *standstill) Strikes() fault.Strikes { return fault.Strikes{Target: s.Target} }

func (*standstill) inject(x *fault.Injection, w fault.Machines) (func(), error) {
	w.Freeze(x.Targets[0])()
	x.End()
	return nil, nil
}

// tape keeps the events of a run.
type tape []history.Event

// Observe implements history.Sink.
func (t *tape) Observe(e *history.Event) { *t = append(*t, *e) }

// withFault returns a scenario with one fault.
func withFault(worlds, entry string) (*scenario.Scenario, error) {
	return scenario.Parse("outside.yaml", fmt.Appendf(nil, `
name: outside
about: A fault that another package has registered.
worlds: %s
cluster:
  executors: 1
  workers:
    shell-1: {runtimes: [shell], concurrency: 1}
actions:
  core.echo: {runtime: shell, takes: 700ms, max_retries: 1}
workload:
  - {action: core.echo, count: 2, from: 1s}
faults:
  - {when: {at: 5s}, %s}
`, worlds, entry))
}

func TestExternalKindStrikesInSimulator(t *testing.T) {
	s, err := withFault("[sim, live]", "stutter: {of: any worker, times: 2}")
	if err != nil {
		t.Fatal(err)
	}
	var all tape
	r := sim.Run(s, config.Hardened, sim.Options{Seed: 1, Record: &all})
	if len(r.Violations) > 0 || r.Panic != "" {
		t.Fatalf("violations %v, panic %q", r.Violations, r.Panic)
	}
	if c := r.Faults[0]; c.Fault != "stutter any worker" || c.Fired != 1 || c.Touched != 1 {
		t.Errorf("the count of the fault is %+v", c)
	}
	var told []string
	crashed := 0
	for i := range all {
		e := &all[i]
		switch e.Kind {
		case history.FaultBegan, history.FaultTouched, history.FaultEnded:
			told = append(told, fmt.Sprintf("%v %v %s %s", e.At, e.Kind, e.Text, e.Process))
		case history.ProcessCrashed:
			crashed++
		default:
		}
	}
	want := "5s fault_began stutter shell-1, 5s fault_touched stutter shell-1, 5s fault_ended stutter shell-1"
	if got := strings.Join(told, ", "); got != want || crashed != 2 {
		t.Errorf("the history has %d crashes and %s\nwant 2 and %s", crashed, got, want)
	}
}

func TestExternalKindNeedingMissingInterfaceIsRefused(t *testing.T) {
	for _, x := range []struct{ worlds, entry, want string }{
		{"[sim, live]", "standstill: shell-1", "the live world can't do a standstill: its processes and servers share one machine"},
		{"[sim]", "tremor: shell-1, for: 10s", "the sim world can't do a tremor: it lacks outside.seismic (Shake)"},
		{"[live]", "tremor: shell-1, for: 10s", "the live world can't do a tremor: it lacks outside.seismic (Shake)"},
		{"[sim]", "stutter: {of: shell-9, times: 2}", `unknown worker "shell-9"`},
		{"[sim]", "stutter: {of: shell-1}", `lacks "times": how often`},
		{"[sim]", "stutter: {of: shell-1, times: 2}, for: 3s", "a stutter has no for: it is over by itself"},
		{"[sim]", "tremor: shell-1", "the fault has no end: add `for`, as in tremor: shell-1, for: 10s"},
	} {
		if _, err := withFault(x.worlds, x.entry); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s in %s: %v\nwant %s", x.entry, x.worlds, err, x.want)
		}
	}
	if _, err := withFault("[sim]", "standstill: shell-1"); err != nil {
		t.Errorf("a standstill in the simulator: %v", err)
	}
}
