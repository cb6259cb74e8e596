package scenario

import (
	"time"

	"go.yaml.in/yaml/v4"

	"handoff/core/config/yamlfile"
)

// This file reads what strikes processes beside crash, pause, freeze and stop.

func cutShortShape() yamlfile.Shape {
	return yamlfile.NewShape("stop_cut_short",
		yamlfile.Required("of", "the process", yamlfile.StringSchema()),
		yamlfile.Required("after", "how long it gets before it is killed", yamlfile.DurationSchema()),
	)
}

func (l *loader) cutShort(n *yaml.Node, f *Fault) {
	f.Kind = StopCutShort
	m, ok := l.Mapping(n, cutShortShape())
	if !ok {
		return
	}
	if m.Has("of") {
		l.target(m.At("of"), f)
	}
	if m.Has("after") {
		f.CutAfter, _ = l.Duration(m.At("after"), "after", time.Millisecond)
	}
}

func rollingShape() yamlfile.Shape {
	return yamlfile.NewShape("rolling_restart",
		yamlfile.Required("of", "the processes, restarted in the order of the file, executors first", yamlfile.StringSchema()),
		yamlfile.Required("down", "how long each stays down once it has stopped", yamlfile.DurationSchema()),
		yamlfile.Required("every", "the time from the start of one to the stop of the next", yamlfile.DurationSchema()),
	)
}

func (l *loader) rolling(n *yaml.Node, f *Fault) {
	f.Kind = RollingRestart
	m, ok := l.Mapping(n, rollingShape())
	if !ok {
		return
	}
	if m.Has("of") {
		l.target(m.At("of"), f)
	}
	if m.Has("down") {
		f.Down, _ = l.Duration(m.At("down"), "down", time.Millisecond)
	}
	if m.Has("every") {
		f.Every, _ = l.Duration(m.At("every"), "every", time.Millisecond)
	}
}

// strikesWorker reads a kind whose value is a worker, or a selector of workers.
func strikesWorker(k FaultKind) func(*loader, *yaml.Node, *Fault) {
	return func(l *loader, n *yaml.Node, f *Fault) {
		f.Kind = k
		if l.clusterOK {
			f.Target, _ = l.Choice(n, "worker", append(l.s.Cluster.WorkerNames(), AnyWorker, HalfWorkers, EveryWorker))
		}
	}
}

// twin reads the name of one worker: a second process of several at once says no more.
func (l *loader) twin(n *yaml.Node, f *Fault) {
	f.Kind = Twin
	if l.clusterOK {
		f.Target, _ = l.Choice(n, "worker", append(l.s.Cluster.WorkerNames(), AnyWorker))
	}
}
