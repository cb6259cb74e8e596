package fault

import (
	"strings"

	"handoff/core/config/yamlfile"
)

// This file holds the common parts of faults that strike processes.

// struck is the process, or the selector, that a fault names as its whole value.
type struck struct{ Target string }

// Read implements Fault.
func (f *struck) Read(r *Reader) { f.Target = r.Process(r.Value) }

// Strikes implements Fault.
func (f *struck) Strikes() Strikes { return Strikes{Target: f.Target} }

// struckWorker is the worker, or the selector of workers, that a fault names as its whole value.
type struckWorker struct{ Target string }

// Read implements Fault.
func (f *struckWorker) Read(r *Reader) { f.Target = r.Worker(r.Value) }

// Strikes implements Fault.
func (f *struckWorker) Strikes() Strikes { return Strikes{Target: f.Target} }

// each calls f for every process that the fault strikes, in the order of Targets.
func (x *Injection) each(w Processes, f func(p Process)) {
	for _, name := range x.Targets {
		if p := w.Process(name); p != nil {
			f(p)
		}
	}
}

// restartLater starts the ended processes again after RestartAfter, and then ends the fault.
func (x *Injection) restartLater(w Processes) {
	if x.RestartAfter == 0 {
		x.Endless()
		return
	}
	x.After(x.RestartAfter, func() {
		x.each(w, func(p Process) {
			if p.Alive() {
				// It is still stopping. Start it once it has ended.
				p.OnEnd(func() { x.After(0, p.Start) })
				return
			}
			p.Start()
		})
		x.End()
	})
}

// processKey is a key whose value names a process.
func processKey(name, about string) yamlfile.Key {
	return yamlfile.Required(name, about, yamlfile.StringSchema())
}

// andList joins names with "and".
func andList(names []string) string { return strings.Join(names, " and ") }
