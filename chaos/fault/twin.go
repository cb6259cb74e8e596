package fault

import "fmt"

func init() {
	Register(Kind{
		Name: "twin", Ends: WithFor, Excuses: []Cause{WorkerTwin},
		About:   "a second process is started under a worker's name, and stopped at the end",
		Example: "twin: shell-1, for: 60s",
		Draw:    func(d *Dice) string { return "twin: " + d.OneWorker() },
	}, (*twin).inject)
}

// twin strikes a single worker, because simultaneous twins of several workers would test nothing new.
type twin struct{ Target string }

// Read implements Fault.
func (t *twin) Read(r *Reader) { t.Target = r.OneWorker(r.Value) }

// Strikes implements Fault.
func (t *twin) Strikes() Strikes { return Strikes{Target: t.Target} }

// inject starts the twin, which supersedes the first process and so makes it exit. At the end, the twin stops
// and the first process restarts.
func (*twin) inject(x *Injection, w Twins) (func(), error) {
	var undo []func()
	for _, name := range x.Targets {
		original := w.Process(name)
		second, err := w.Twin(fmt.Sprintf("%s twin %d", name, x.Index), name)
		if err != nil {
			return nil, err
		}
		if original.Alive() {
			x.Touch(Touched{Process: name})
		}
		second.Start()
		undo = append(undo, func() {
			if !second.Alive() {
				original.Start()
				return
			}
			second.OnEnd(func() { x.After(0, original.Start) })
			second.Terminate()
		})
	}
	return InOrder(undo), nil
}
