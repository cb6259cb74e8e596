package vary

import (
	"fmt"
	"slices"
	"time"

	"handoff/chaos/scenario"
	"handoff/core/config/yamlfile"
	"handoff/core/execution"
)

const (
	// mostRetries is the largest drawn number of retries.
	mostRetries = 5
	// mostMore is the largest factor by which a load grows, and mostExecutions the largest size that it may
	// grow to.
	mostMore       = 3
	mostExecutions = 40
	// mostCopies is the largest number of times that the same request is sent.
	mostCopies = 3
)

func actionDimensions() []dimension {
	return []dimension{
		{leaveOut: shortRuns, exaggerate: otherRuns},
		{leaveOut: withoutOwnLimits, exaggerate: ownTimeouts},
		{leaveOut: noFailures, exaggerate: moreFailures},
		{exaggerate: limitedActions},
	}
}

func shortRuns(d *draw) {
	for _, a := range d.s.Actions {
		d.longest[a.Ref] = 50 * time.Millisecond
		d.addEdit(func(doc *scenario.Document) { doc.Put("50ms", "actions", a.Ref, "takes") }, "%s takes 50ms", a.Ref)
	}
}

// otherRuns draws the durations of actions, up to longestDuration. If the workers can't run all executions of
// an action at once, each is shorter, so that all together do not take much longer.
func otherRuns(d *draw) {
	slots := 0
	for _, w := range d.workers {
		slots += max(1, w.Concurrency)
	}
	for _, a := range d.s.Actions {
		if d.oneIn(3) {
			continue
		}
		waves := max(1, d.s.SubmissionsOf(a.Ref)/max(1, slots))
		most := d.Within(50*time.Millisecond, max(time.Second, d.longestDuration()/time.Duration(waves)))
		d.longest[a.Ref] = most
		takes := fmt.Sprintf("{log_uniform: [10ms, %s]}", yamlfile.Short(most))
		timeout := ""
		if most >= a.Timeout-a.Timeout/4 && !d.oneIn(4) {
			timeout = yamlfile.Short(most + 10*time.Second)
		}
		d.addEdit(func(doc *scenario.Document) {
			doc.Put(takes, "actions", a.Ref, "takes")
			if timeout != "" {
				doc.Put(timeout, "actions", a.Ref, "timeout")
			}
		}, "%s takes %s", a.Ref, takes)
	}
}

// withoutOwnLimits removes the dispatch timeouts of actions and the limits of workload steps, so that those
// of the configuration and of the actions apply.
func withoutOwnLimits(d *draw) {
	for _, a := range d.s.Actions {
		if a.DispatchTimeout > 0 {
			d.addEdit(func(doc *scenario.Document) { doc.Take("actions", a.Ref, "dispatch_timeout") }, "%s has no dispatch_timeout of its own", a.Ref)
		}
	}
	for i := range d.s.Workload {
		if d.s.Workload[i].Limits != (execution.Limits{}) && d.s.Workload[i].Again == 0 {
			d.addEdit(func(doc *scenario.Document) {
				for _, key := range []string{"timeout", "dispatch_timeout", "max_retries"} {
					doc.Take(append(doc.Load(i), key)...)
				}
			}, "step %d of the workload has no limits of its own", i+1)
		}
	}
}

// ownTimeouts draws timeouts and dispatch timeouts of actions and of workload steps. The timeouts lie around
// the duration of the action, and the dispatch timeouts around the configured one. With dead lettering, no
// dispatch timeout exceeds the queue's time to live. Steps also get a number of retries.
func ownTimeouts(d *draw) {
	for _, a := range d.s.Actions {
		if d.oneIn(2) {
			d.putDuration(d.Within(max(10*time.Millisecond, d.longest[a.Ref]/4), 4*d.longest[a.Ref]+time.Second), "timeout", a.Ref, "actions", a.Ref)
		}
		if d.oneIn(2) {
			d.putDuration(d.dispatchTimeout(), "dispatch_timeout", a.Ref, "actions", a.Ref)
		}
	}
	for i := range d.s.Workload {
		load := &d.s.Workload[i]
		if load.Again > 0 || d.usedAgain(i) || d.oneIn(2) {
			continue
		}
		at := fmt.Sprintf("step %d of the workload", i+1)
		if d.oneIn(2) {
			timeout := yamlfile.Short(d.Within(max(10*time.Millisecond, d.longest[load.Action]/4), 4*d.longest[load.Action]+time.Second))
			d.addEdit(func(doc *scenario.Document) { doc.Put(timeout, append(doc.Load(i), "timeout")...) }, "%s has timeout %s", at, timeout)
		}
		if d.oneIn(2) {
			timeout := yamlfile.Short(d.dispatchTimeout())
			d.addEdit(func(doc *scenario.Document) { doc.Put(timeout, append(doc.Load(i), "dispatch_timeout")...) }, "%s has dispatch_timeout %s", at, timeout)
		}
		if n := d.Number(0, mostRetries); d.oneIn(2) {
			d.addEdit(func(doc *scenario.Document) { doc.Put(fmt.Sprint(n), append(doc.Load(i), "max_retries")...) }, "%s has max_retries %d", at, n)
		}
	}
}

func (d *draw) putDuration(value time.Duration, key, of string, at ...any) {
	text := yamlfile.Short(value)
	d.addEdit(func(doc *scenario.Document) { doc.Put(text, append(slices.Clone(at), key)...) }, "%s has %s %s", of, key, text)
}

func (d *draw) dispatchTimeout() time.Duration {
	c := d.config
	most := 2 * c.Executor.DispatchTimeout
	if c.MessageQueue.RabbitMQ.DeadLetter.Enabled {
		most = min(most, c.MessageQueue.RabbitMQ.WorkerQueueTTL())
	}
	return d.Within(min(most, max(time.Second, c.Executor.DispatchTimeout/8)), most)
}

func noFailures(d *draw) {
	for _, a := range d.s.Actions {
		if a.FailPerMillion > 0 {
			d.addEdit(func(doc *scenario.Document) { doc.Take("actions", a.Ref, "fails") }, "%s never fails by itself", a.Ref)
		}
	}
}

func moreFailures(d *draw) {
	for _, a := range d.s.Actions {
		if d.oneIn(3) {
			continue
		}
		fails := fmt.Sprintf("{rate: %s, reason: %s}", d.Percent(5, 80), d.Of("connection reset", "validation", "transient", "unknown"))
		retries := d.Number(0, mostRetries)
		d.addEdit(func(doc *scenario.Document) {
			doc.Put(fails, "actions", a.Ref, "fails")
			doc.Put(fmt.Sprint(retries), "actions", a.Ref, "max_retries")
		}, "%s fails %s and has max_retries %d", a.Ref, fails, retries)
	}
}

// exitCodes makes actions fail with exit codes in one of four seeds. Some codes are declared as retriable.
func exitCodes(d *draw) {
	if !d.oneIn(4) {
		return
	}
	for _, a := range d.s.Actions {
		if d.oneIn(3) {
			continue
		}
		codes, declared := d.drawExitCodes(1, 5), d.drawExitCodes(0, 5)
		// Declare some of the codes that occur as retriable.
		for _, code := range codes {
			if d.oneIn(2) && !slices.Contains(declared, code) {
				declared = append(declared, code)
			}
		}
		fails := fmt.Sprintf("{rate: %s, exit_codes: %s}", d.Percent(5, 80), flowList(codes))
		retries := d.Number(0, mostRetries)
		d.addEdit(func(doc *scenario.Document) {
			doc.Put(fails, "actions", a.Ref, "fails")
			doc.Put(fmt.Sprint(retries), "actions", a.Ref, "max_retries")
			doc.Take("actions", a.Ref, "retried_exit_codes")
			if len(declared) > 0 {
				doc.Put(flowList(declared), "actions", a.Ref, "retried_exit_codes")
			}
		}, "%s fails %s, declares %s and has max_retries %d", a.Ref, fails, flowList(declared), retries)
	}
}

// drawExitCodes draws distinct exit codes: bounds, values around multiples of 64, and codes of the table.
func (d *draw) drawExitCodes(least, most int) (codes []int) {
	all := []int{1, 2, 63, 64, 65, 69, 75, 77, 111, 124, 127, 128, 191, 192, 254, 255}
	for n := d.Number(least, most); n > 0; n-- {
		i := d.Choose(len(all))
		codes = append(codes, all[i])
		all = slices.Delete(all, i, i+1)
	}
	return codes
}

func limitedActions(d *draw) {
	for _, a := range d.s.Actions {
		if d.oneIn(2) {
			continue
		}
		n := d.Number(1, 4)
		d.addEdit(func(doc *scenario.Document) { doc.Put(fmt.Sprint(n), "actions", a.Ref, "concurrency") },
			"at most %d of %s at a time%s", n, a.Ref, insteadOf(a.Concurrency))
	}
}

func workloadDimensions() []dimension {
	return []dimension{
		{leaveOut: fewExecutions, exaggerate: moreExecutions},
		{leaveOut: atOnce, exaggerate: otherSpacing},
		{leaveOut: sentOnce, exaggerate: sentOften},
		{leaveOut: withoutPins, exaggerate: pinnedLoads},
		{leaveOut: withoutCancels, exaggerate: addedCancels},
	}
}

// usedAgain reports whether a later load repeats the idempotency keys of the i-th load. The two must match,
// so neither is changed.
func (d *draw) usedAgain(i int) bool {
	return slices.ContainsFunc(d.s.Workload, func(l scenario.Load) bool { return l.Again == i+1 })
}

// eachLoad calls f with every load that may change: each load that shares no idempotency keys with another
// load.
func (d *draw) eachLoad(f func(i int, load *scenario.Load)) {
	for i := range d.s.Workload {
		load := &d.s.Workload[i]
		if load.Again == 0 && !d.usedAgain(i) {
			f(i, load)
		}
	}
}

func (d *draw) setCount(i int, load *scenario.Load, n int) {
	if n < 1 || n == load.Count {
		return
	}
	d.addEdit(func(doc *scenario.Document) { doc.SetCount(i, n) }, "step %d of the workload submits %d instead of %d", i+1, n, load.Count)
}

// fewExecutions divides the counts of loads. The scenario language refuses a count that leaves too few
// parents for the children, or that removes an execution that a step cancels. applyEdits leaves out such an
// edit.
func fewExecutions(d *draw) {
	part := d.Number(2, 20)
	for i := len(d.s.Workload) - 1; i >= 0; i-- { // divide the counts of children before those of their parents
		load := &d.s.Workload[i]
		if load.Again == 0 && !d.usedAgain(i) {
			d.setCount(i, load, (load.Count+part-1)/part)
		}
	}
}

func moreExecutions(d *draw) {
	factor := d.Number(2, mostMore)
	d.eachLoad(func(i int, load *scenario.Load) {
		d.setCount(i, load, max(load.Count, min(factor*load.Count, mostExecutions)))
	})
}

func atOnce(d *draw) {
	d.eachLoad(func(i int, load *scenario.Load) {
		if load.Every > 0 {
			d.addEdit(func(doc *scenario.Document) { doc.Put("0s", append(doc.Load(i), "every")...) },
				"step %d of the workload submits all at once", i+1)
		}
	})
}

func otherSpacing(d *draw) {
	d.eachLoad(func(i int, load *scenario.Load) {
		every := d.Within(time.Millisecond, max(time.Second, d.longestDuration()/time.Duration(4*load.Count)))
		from := load.From
		if d.oneIn(2) {
			from = d.Within(0, 5*time.Minute)
		}
		d.addEdit(func(doc *scenario.Document) {
			doc.Put(yamlfile.Short(every), append(doc.Load(i), "every")...)
			doc.Put(yamlfile.Short(from), append(doc.Load(i), "from")...)
		}, "step %d of the workload submits every %s from %s", i+1, yamlfile.Short(every), yamlfile.Short(from))
	})
}

func sentOnce(d *draw) {
	d.eachLoad(func(i int, load *scenario.Load) {
		if load.Copies > 1 {
			d.addEdit(func(doc *scenario.Document) { doc.Take(append(doc.Load(i), "copies")...) }, "step %d of the workload sends each request once", i+1)
		}
	})
}

func sentOften(d *draw) {
	d.eachLoad(func(i int, load *scenario.Load) {
		n := d.Number(2, mostCopies)
		d.addEdit(func(doc *scenario.Document) { doc.Put(fmt.Sprint(n), append(doc.Load(i), "copies")...) },
			"step %d of the workload sends each request %d times", i+1, n)
	})
}

func withoutPins(d *draw) {
	d.eachLoad(func(i int, load *scenario.Load) {
		if load.Pin != "" {
			d.addEdit(func(doc *scenario.Document) { doc.Take(append(doc.Load(i), "pin")...) }, "step %d of the workload is not pinned", i+1)
		}
	})
}

func pinnedLoads(d *draw) {
	d.eachLoad(func(i int, load *scenario.Load) {
		runtime := ""
		for _, a := range d.s.Actions {
			if a.Ref == load.Action {
				runtime = a.Runtime
			}
		}
		var fit []string
		for _, w := range d.workers {
			if slices.Contains(w.Runtimes, runtime) {
				fit = append(fit, w.Name)
			}
		}
		if len(fit) == 0 || d.oneIn(2) {
			return
		}
		pin := d.Of(fit...)
		d.addEdit(func(doc *scenario.Document) { doc.Put(pin, append(doc.Load(i), "pin")...) }, "step %d of the workload is pinned to %s", i+1, pin)
	})
}

func withoutCancels(d *draw) {
	for i := len(d.s.Cancels) - 1; i >= 0; i-- {
		d.addEdit(func(doc *scenario.Document) { doc.DropCancel(i) }, "without step %d that cancels", i+1)
	}
}

func addedCancels(d *draw) {
	for range d.Number(1, 3) {
		load := &d.s.Workload[d.Choose(len(d.s.Workload))]
		nth := d.Number(1, max(1, min(load.Count, mostExecutions/2)))
		n := d.Number(1, max(1, min(load.Count-nth+1, 5)))
		step := fmt.Sprintf("{cancel: {action: %q, nth: %d, count: %d, after: {log_uniform: [1ms, %s]}}}", load.Action, nth, n,
			d.Lasting(10*time.Millisecond, max(time.Minute, d.longest[load.Action])))
		d.addEdit(func(doc *scenario.Document) { doc.Append(step, "workload") }, "one more step of the workload: %s", step)
	}
}
