package vary

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"handoff/chaos/scenario"
	"handoff/core/config/yamlfile"
)

// mostWorkers and mostExecutors are the largest numbers that are drawn: each additional process adds steps to
// a run.
const (
	mostWorkers   = 6
	mostExecutors = 3
)

func clusterDimensions() []dimension {
	return []dimension{
		{leaveOut: func(d *draw) { d.setExecutors(1) }, exaggerate: func(d *draw) { d.setExecutors(d.Number(2, mostExecutors)) }},
		{leaveOut: fewerWorkers, exaggerate: moreWorkers},
		{leaveOut: configuredCapacity, exaggerate: drawnCapacity},
		{exaggerate: otherRuntimes},
		{leaveOut: oldBroker, exaggerate: otherBroker},
	}
}

// oldBroker makes the broker behave like the default release.
func oldBroker(d *draw) {
	if was := d.s.Cluster.RabbitMQ; was != "" {
		d.addEdit(func(doc *scenario.Document) { doc.Take("cluster", "rabbitmq") }, "a broker like RabbitMQ's default release instead of %s", was)
	}
}

// otherBroker makes the broker behave like another release.
func otherBroker(d *draw) {
	version := d.Of(scenario.BrokerVersions()[1:]...)
	if version != d.s.Cluster.RabbitMQ {
		d.addEdit(func(doc *scenario.Document) { doc.Put(strconv.Quote(version), "cluster", "rabbitmq") }, "a broker like RabbitMQ %s", version)
	}
}

func (d *draw) setExecutors(n int) {
	was := d.s.Cluster.Executors
	if n == was || n < d.namedExecutors() {
		return
	}
	d.Cluster.Executors = scenario.Cluster{Executors: n}.ExecutorNames()
	d.addEdit(func(doc *scenario.Document) { doc.SetExecutors(n) }, "%d executors instead of %d", n, was)
}

// namedExecutors returns the smallest number of executors that includes every executor named by a fault.
func (d *draw) namedExecutors() (least int) {
	for i, name := range d.s.Cluster.ExecutorNames() {
		if d.isNamed(name) {
			least = i + 1
		}
	}
	return least
}

// isNamed reports whether a fault or the workload names a process.
func (d *draw) isNamed(process string) bool {
	return slices.ContainsFunc(d.s.Faults, func(f scenario.Fault) bool {
		return f.Spec.Strikes().Target == process || f.When.Of == process
	}) || slices.ContainsFunc(d.s.Workload, func(l scenario.Load) bool { return l.Pin == process })
}

// fewerWorkers removes workers that no fault or load names, as long as every runtime keeps a worker.
func fewerWorkers(d *draw) {
	for i := len(d.workers) - 1; i >= 0; i-- {
		w := d.workers[i]
		rest := slices.Delete(slices.Clone(d.workers), i, i+1)
		if d.oneIn(2) || d.isNamed(w.Name) || !coversRuntimes(rest, w.Runtimes) {
			continue
		}
		d.workers = rest
		d.Cluster.Workers = slices.DeleteFunc(d.Cluster.Workers, func(name string) bool { return name == w.Name })
		d.addEdit(func(doc *scenario.Document) { doc.DropWorker(w.Name) }, "without the worker %s", w.Name)
	}
}

func coversRuntimes(workers []scenario.Worker, runtimes []string) bool {
	return !slices.ContainsFunc(runtimes, func(runtime string) bool {
		return !slices.ContainsFunc(workers, func(w scenario.Worker) bool { return slices.Contains(w.Runtimes, runtime) })
	})
}

// moreWorkers adds workers with the runtimes of existing ones. Some start late.
func moreWorkers(d *draw) {
	if len(d.workers) == 0 {
		return
	}
	for n := range d.Number(1, max(1, mostWorkers-len(d.workers))) {
		w := scenario.Worker{Name: fmt.Sprintf("more-%d", n+1), Runtimes: d.workers[d.Choose(len(d.workers))].Runtimes}
		if len(d.workers) >= mostWorkers || d.Cluster.Workers == nil || slices.Contains(d.Cluster.Workers, w.Name) {
			return
		}
		value := fmt.Sprintf("{runtimes: [%s]", quoteList(w.Runtimes))
		if !d.oneIn(3) {
			value += fmt.Sprintf(", concurrency: %d", d.Number(1, 5))
		}
		if d.oneIn(4) {
			w.Starts = d.Within(time.Second, 5*time.Minute)
			value += ", starts: " + yamlfile.Short(w.Starts)
		} else {
			d.Cluster.Workers = append(d.Cluster.Workers, w.Name) // faults may name this worker
		}
		d.workers = append(d.workers, w)
		value += "}"
		d.addEdit(func(doc *scenario.Document) { doc.Put(value, "cluster", "workers", w.Name) }, "one more worker, %s: %s", w.Name, value)
	}
}

func quoteList(list []string) string {
	all := make([]string, len(list))
	for i, item := range list {
		all[i] = fmt.Sprintf("%q", item)
	}
	return strings.Join(all, ", ")
}

// configuredCapacity gives every worker the configured concurrency.
func configuredCapacity(d *draw) {
	for _, w := range d.s.Cluster.Workers {
		if w.Concurrency > 0 && d.hasWorker(w.Name) {
			d.addEdit(func(doc *scenario.Document) { doc.Take("cluster", "workers", w.Name, "concurrency") },
				"%s has the configuration's concurrency instead of %d", w.Name, w.Concurrency)
		}
	}
}

func drawnCapacity(d *draw) {
	for _, w := range d.s.Cluster.Workers {
		n := d.Number(1, 4)
		if d.oneIn(4) {
			n = d.Number(5, 30)
		}
		if !d.hasWorker(w.Name) || n == w.Concurrency {
			continue
		}
		d.addEdit(func(doc *scenario.Document) { doc.Put(fmt.Sprint(n), "cluster", "workers", w.Name, "concurrency") },
			"%s runs %d at a time%s", w.Name, n, insteadOf(w.Concurrency))
	}
}

func insteadOf(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" instead of %d", n)
}

// hasWorker reports whether a worker still exists.
func (d *draw) hasWorker(worker string) bool {
	return slices.ContainsFunc(d.workers, func(w scenario.Worker) bool { return w.Name == worker })
}

// otherRuntimes gives a worker a runtime of another worker, or removes a runtime that other workers have too.
func otherRuntimes(d *draw) {
	var all []string
	for _, w := range d.workers {
		for _, runtime := range w.Runtimes {
			if !slices.Contains(all, runtime) {
				all = append(all, runtime)
			}
		}
	}
	if len(all) < 2 {
		return
	}
	for i := range d.workers {
		w := d.workers[i]
		runtime := d.Of(all...)
		if at := slices.Index(w.Runtimes, runtime); at < 0 {
			w.Runtimes = append(slices.Clone(w.Runtimes), runtime)
		} else {
			w.Runtimes = slices.Delete(slices.Clone(w.Runtimes), at, at+1)
		}
		rest := slices.Clone(d.workers)
		rest[i] = w
		if len(w.Runtimes) == 0 || !coversRuntimes(rest, all) || d.oneIn(2) {
			continue
		}
		d.workers = rest
		value := "[" + quoteList(w.Runtimes) + "]"
		d.addEdit(func(doc *scenario.Document) { doc.Put(value, "cluster", "workers", w.Name, "runtimes") }, "%s has the runtimes %s", w.Name, value)
	}
}
