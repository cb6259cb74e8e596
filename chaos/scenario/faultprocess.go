package scenario

import (
	"time"

	"go.yaml.in/yaml/v4"
)

// This file reads what strikes processes beside crash, pause, freeze and stop.

func cutShortShape() shape {
	return shape{"stop_cut_short", []key{
		{"of", "the process", true, schema{"type": "string"}},
		{"after", "how long it gets before it is killed", true, durationSchema()},
	}}
}

func (l *loader) cutShort(n *yaml.Node, f *Fault) {
	f.Kind = StopCutShort
	m, ok := l.mapping(n, cutShortShape())
	if !ok {
		return
	}
	if m.has("of") {
		l.target(m.at("of"), f)
	}
	if m.has("after") {
		f.CutAfter, _ = l.duration(m.at("after"), "after", time.Millisecond)
	}
}

func rollingShape() shape {
	return shape{"rolling_restart", []key{
		{"of", "the processes, restarted in the order of the file, executors first", true, schema{"type": "string"}},
		{"down", "how long each stays down once it has stopped", true, durationSchema()},
		{"every", "the time from the start of one to the stop of the next", true, durationSchema()},
	}}
}

func (l *loader) rolling(n *yaml.Node, f *Fault) {
	f.Kind = RollingRestart
	m, ok := l.mapping(n, rollingShape())
	if !ok {
		return
	}
	if m.has("of") {
		l.target(m.at("of"), f)
	}
	if m.has("down") {
		f.Down, _ = l.duration(m.at("down"), "down", time.Millisecond)
	}
	if m.has("every") {
		f.Every, _ = l.duration(m.at("every"), "every", time.Millisecond)
	}
}

// strikesWorker reads a kind whose value is a worker, or a selector of workers.
func strikesWorker(k FaultKind) func(*loader, *yaml.Node, *Fault) {
	return func(l *loader, n *yaml.Node, f *Fault) {
		f.Kind = k
		if l.clusterOK {
			f.Target, _ = l.choice(n, "worker", append(l.s.Cluster.WorkerNames(), AnyWorker, HalfWorkers, EveryWorker))
		}
	}
}

// twin reads the name of one worker: a second process of several at once says no more.
func (l *loader) twin(n *yaml.Node, f *Fault) {
	f.Kind = Twin
	if l.clusterOK {
		f.Target, _ = l.choice(n, "worker", append(l.s.Cluster.WorkerNames(), AnyWorker))
	}
}
