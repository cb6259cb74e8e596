package fault

import (
	"strings"

	"handoff/core/config/yamlfile"
)

// This file holds the common parts of faults that strike processes.

// processTarget is the process, or the selector, that a fault names as its whole value.
type processTarget struct{ Target string }

// Read implements Fault.
func (p *processTarget) Read(r *Reader) { p.Target = r.Process(r.Value) }

// Strikes implements Fault.
func (p *processTarget) Strikes() Strikes { return Strikes{Target: p.Target} }

// workerTarget is the worker, or the selector of workers, that a fault names as its whole value.
type workerTarget struct{ Target string }

// Read implements Fault.
func (w *workerTarget) Read(r *Reader) { w.Target = r.Worker(r.Value) }

// Strikes implements Fault.
func (w *workerTarget) Strikes() Strikes { return Strikes{Target: w.Target} }

// eachTarget calls f for every process that the fault strikes, in the order of Targets.
func (i *Injection) eachTarget(w Processes, f func(p Process)) {
	for _, name := range i.Targets {
		if p := w.Process(name); p != nil {
			f(p)
		}
	}
}

// restartLater restarts the ended processes after RestartAfter, and then ends the fault.
func (i *Injection) restartLater(w Processes) {
	if i.RestartAfter == 0 {
		i.Endless()
		return
	}
	i.After(i.RestartAfter, func() {
		i.eachTarget(w, func(p Process) {
			if p.Alive() {
				// The process is still stopping. Start it once it has ended.
				p.OnEnd(func() { i.After(0, p.Start) })
				return
			}
			p.Start()
		})
		i.End()
	})
}

// processKey returns a key whose value names a process.
func processKey(name, about string) yamlfile.Key {
	return yamlfile.Required(name, about, yamlfile.StringSchema())
}

// andList joins names with "and".
func andList(names []string) string { return strings.Join(names, " and ") }
