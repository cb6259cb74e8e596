// Package manual breaks a running system by hand, one fault at a time, as scenarios name it: processes through
// whatever supervises them, links through toxiproxy's own client. Nothing is recorded and nothing judged; what
// came of it the audit knows.
package manual

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2/client"

	"handoff/chaos/live/cluster"
	"handoff/chaos/scenario"
)

// Supervisor is what starts and ends the processes of a running system.
type Supervisor interface {
	// Processes lists them.
	Processes(ctx context.Context) ([]cluster.Named, error)
	// Do does something to one.
	Do(ctx context.Context, process string, act cluster.Act) error
}

// System is a running system.
type System struct {
	Supervisor Supervisor
	// Toxiproxy is the address of its API, HOST:PORT. Its proxies are called PROCESS.SERVER.
	Toxiproxy string
}

// Parse reads a fault as a scenario has it, without its time, for a system of these processes: `pause:
// worker-1, for: 20s`.
func Parse(text string, processes []cluster.Named) (*scenario.Scenario, *scenario.Fault, error) {
	var executors int
	var workers []string
	for _, p := range processes {
		if p.Worker {
			workers = append(workers, p.Name+": {runtimes: [shell]}")
		} else {
			executors++
		}
	}
	file := fmt.Sprintf(`name: by-hand
about: One fault by hand.
cluster: {executors: %d, workers: {%s}}
profile: hardened
actions: {core.echo: {runtime: shell, takes: 1s}}
workload: [{action: core.echo, count: 1}]
expect: {invariants: all}
faults: [{when: {at: 0s}, %s}]
`, executors, strings.Join(workers, ", "), text)
	s, err := scenario.Parse("FAULT", []byte(file))
	if err != nil {
		return nil, nil, err
	}
	if len(s.Faults) != 1 {
		return nil, nil, errors.New("one fault at a time")
	}
	f := &s.Faults[0]
	if !slices.Contains(Kinds(), f.Kind) {
		return nil, nil, fmt.Errorf("%s can't be brought about by hand; what can: %v", f.Kind, Kinds())
	}
	return s, f, nil
}

// Kinds are the faults that can be brought about by hand.
func Kinds() []scenario.FaultKind {
	return []scenario.FaultKind{
		scenario.Crash, scenario.Stop, scenario.Pause, scenario.Partition, scenario.Latency, scenario.Reset,
	}
}

// Break brings a fault about, waits until it is to end or ctx does, and ends it. say is told what is done.
func (y *System) Break(ctx context.Context, s *scenario.Scenario, f *scenario.Fault, say func(string)) error {
	targets := choose(s, f)
	undo, lasts, err := y.begin(ctx, f, targets)
	if err == nil {
		say(fmt.Sprintf("%s: %s", f.Kind, strings.Join(targets, ", ")))
		if undo == nil {
			return nil
		}
		say(fmt.Sprintf("it ends in %v, or with Ctrl-C", lasts))
		select {
		case <-ctx.Done():
		case <-time.After(lasts):
		}
	}
	if undo != nil {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if failed := undo(within); failed != nil {
			return errors.Join(err, fmt.Errorf("ending it: %w", failed))
		}
		say("it is over")
	}
	return err
}

// choose draws whom a fault strikes.
func choose(s *scenario.Scenario, f *scenario.Fault) []string {
	names, count := s.Cluster.Candidates(f.Target)
	names = slices.Clone(names)
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	names = names[:count]
	slices.Sort(names)
	return names
}

// undoing ends a fault.
type undoing func(ctx context.Context) error

// begin begins a fault. What it returns ends it, also where it began in part only; nil if it has no end.
func (y *System) begin(ctx context.Context, f *scenario.Fault, targets []string) (undoing, time.Duration, error) {
	switch f.Kind {
	case scenario.Crash:
		return y.processes(ctx, targets, cluster.Crash, cluster.Start, f.RestartAfter)
	case scenario.Stop:
		return y.processes(ctx, targets, cluster.Stop, cluster.Start, f.RestartAfter)
	case scenario.Pause:
		return y.processes(ctx, targets, cluster.Pause, cluster.Resume, f.For)
	default:
		undo, err := y.links(f, targets)
		return undo, f.For, err
	}
}

func (y *System) processes(ctx context.Context, targets []string, act, back cluster.Act, lasts time.Duration) (undoing, time.Duration, error) {
	each := func(ctx context.Context, act cluster.Act) (failed error) {
		for _, name := range targets {
			failed = errors.Join(failed, y.Supervisor.Do(ctx, name, act))
		}
		return failed
	}
	err := each(ctx, act)
	if lasts == 0 {
		return nil, 0, err
	}
	return func(ctx context.Context) error { return each(ctx, back) }, lasts, err
}

// links puts a toxic on every way that the fault is about. Toxicity is 1 where nothing is to be drawn.
func (y *System) links(f *scenario.Fault, targets []string) (undoing, error) {
	client := toxiproxy.NewClient(y.Toxiproxy)
	kind, toxicity, attributes := toxic(f)
	type placed struct {
		proxy *toxiproxy.Proxy
		name  string
	}
	var all []placed
	undo := func(context.Context) (failed error) {
		for _, p := range all {
			failed = errors.Join(failed, p.proxy.RemoveToxic(p.name))
		}
		return failed
	}
	for _, target := range targets {
		for _, server := range f.From {
			proxy, err := client.Proxy(target + "." + server)
			if err != nil {
				return undo, fmt.Errorf("the link from %s to the %s: %w", target, server, err)
			}
			for _, way := range ways(f.Direction, server) {
				name := "by-hand-" + way
				if _, err := proxy.AddToxic(name, kind, way, toxicity, attributes); err != nil {
					return undo, fmt.Errorf("the link from %s to the %s: %w", target, server, err)
				}
				all = append(all, placed{proxy, name})
			}
		}
	}
	return undo, nil
}

// ways are toxiproxy's names for the directions, seen from the process, which on the link to the executors is
// the one that listens.
func ways(d scenario.Direction, server string) []string {
	out, in := "upstream", "downstream"
	if server == scenario.Executors {
		out, in = in, out
	}
	switch d {
	case scenario.Outgoing:
		return []string{out}
	case scenario.Incoming:
		return []string{in}
	default:
		return []string{out, in}
	}
}

// toxic is what toxiproxy has for a fault. A timeout of 0 lets nothing through, and closes the connections when
// it is taken away, because bytes were lost.
func toxic(f *scenario.Fault) (kind string, toxicity float32, attributes toxiproxy.Attributes) {
	switch f.Kind {
	case scenario.Latency:
		middle := (f.DelayMin + f.DelayMax) / 2
		return "latency", 1, toxiproxy.Attributes{"latency": middle.Milliseconds(), "jitter": (f.DelayMax - middle).Milliseconds()}
	case scenario.Reset:
		return "reset_peer", float32(f.PerMillion) / 1_000_000, toxiproxy.Attributes{"timeout": 0}
	default:
		return "timeout", 1, toxiproxy.Attributes{"timeout": 0}
	}
}
