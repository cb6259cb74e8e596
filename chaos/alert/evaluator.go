// Package alert evaluates the alert rules of core/telemetry during a run: it collects the core's metrics and
// evaluates the rules every sample interval, as Prometheus would.
package alert

import (
	"maps"
	"slices"
	"time"

	"handoff/core/telemetry"
)

// Evaluator collects the metrics that a run's processes export, and evaluates the rules. It is not safe for
// concurrent use.
type Evaluator struct {
	table []telemetry.Info
	rules []*rule
	// counters are sums over all processes and their restarts, like the result of Prometheus' increase() for
	// counters that restart from zero. For a histogram, measured is the number of measurements, and counters
	// holds their sum. All are indexed by figure.
	counters, measured []map[telemetry.Labels]int64
	gauges             []map[gauge]int64
}

// gauge identifies a gauge by its process and labels.
type gauge struct {
	process string
	labels  telemetry.Labels
}

// rule is an alert rule with its state of evaluation.
type rule struct {
	telemetry.Rule
	of, per window
	holds   bool
	since   time.Duration
	firing  bool
}

// NewEvaluator returns an evaluator without samples.
func NewEvaluator() *Evaluator {
	table := telemetry.Table()
	b := &Evaluator{table: table}
	for range table {
		b.counters = append(b.counters, make(map[telemetry.Labels]int64))
		b.measured = append(b.measured, make(map[telemetry.Labels]int64))
		b.gauges = append(b.gauges, make(map[gauge]int64))
	}
	for _, r := range telemetry.Rules() {
		b.rules = append(b.rules, &rule{Rule: r})
	}
	return b
}

// Change reports that an alert began to fire or was resolved.
type Change struct {
	Alert  string
	Firing bool
}

// Look takes one sample, evaluates the rules, and returns the alerts that changed.
func (e *Evaluator) Look(now time.Duration) (changes []Change) {
	for _, r := range e.rules {
		holds := e.judgeRule(r)
		if holds && !r.holds {
			r.since = now
		}
		r.holds = holds
		firing := holds && now-r.since >= r.For
		if firing != r.firing {
			r.firing = firing
			changes = append(changes, Change{r.Name, firing})
		}
	}
	return changes
}

// Firing reports whether the alert is firing.
func (e *Evaluator) Firing(name string) bool {
	for _, r := range e.rules {
		if r.Name == name {
			return r.firing
		}
	}
	return false
}

func (e *Evaluator) judgeRule(r *rule) bool {
	of, known := e.queryValue(&r.Of)
	if r.Absent {
		return !known
	}
	if e.table[r.Of.Figure].Kind == telemetry.Histogram {
		sum, _ := r.of.addSample(&r.Of, true, of, true)
		n, _ := r.per.addSample(&r.Of, true, seriesTotal(e.measured, &r.Of), true)
		return n >= r.Samples && n > 0 && sum > n*r.Above*int64(time.Second)
	}
	of, _ = r.of.addSample(&r.Of, e.isCounter(&r.Of), of, known)
	if r.Per == nil {
		above := r.Above
		if e.table[r.Of.Figure].Seconds {
			above *= int64(time.Second)
		}
		return known && (r.Zero && of == 0 || !r.Zero && of > above)
	}
	per, known := e.queryValue(r.Per)
	per, samples := r.per.addSample(r.Per, e.isCounter(r.Per), per, known)
	if e.isCounter(r.Per) {
		samples = per
	}
	return samples >= r.Samples && per > 0 && of*100 > r.Above*per
}

// isCounter reports whether a query selects a counter.
func (e *Evaluator) isCounter(q *telemetry.Query) bool {
	return e.table[q.Figure].Kind == telemetry.Counter
}

// queryValue returns a query's current value: the sum of the selected counters, or the sum of the selected
// gauges, each from the process where it is largest. It is unknown until a process has reported it.
func (e *Evaluator) queryValue(q *telemetry.Query) (sum int64, known bool) {
	if e.table[q.Figure].Kind != telemetry.Gauge {
		return seriesTotal(e.counters, q), true
	}
	largest := make(map[telemetry.Labels]int64)
	for g, v := range e.gauges[q.Figure] { //detlint:ok the largest of each label does not depend on the order
		if !q.Matches(g.labels) {
			continue
		}
		if most, seen := largest[g.labels]; !seen || v > most {
			largest[g.labels] = v
		}
	}
	for _, v := range largest { //detlint:ok a sum and a maximum do not depend on the order
		if q.Largest {
			sum = max(sum, v)
		} else {
			sum += v
		}
	}
	return sum, len(largest) > 0
}

// seriesTotal returns the sum of the series that a query selects.
func seriesTotal(of []map[telemetry.Labels]int64, q *telemetry.Query) (sum int64) {
	for l, v := range of[q.Figure] { //detlint:ok a sum does not depend on the order
		if q.Matches(l) {
			sum += v
		}
	}
	return sum
}

// window keeps the samples of a query's window.
type window struct {
	samples []int64
}

// addSample adds a sample. It returns the growth of a counter over the window, or the sum of a gauge's
// samples, and the number of samples.
func (w *window) addSample(q *telemetry.Query, counter bool, value int64, known bool) (over, samples int64) {
	if q.Window == 0 {
		return value, 1
	}
	most := int(q.Window / telemetry.SampleInterval)
	if counter {
		// The growth is measured from the last sample before the window.
		most++
	}
	if known {
		w.samples = append(w.samples, value)
	}
	if drop := len(w.samples) - most; drop > 0 {
		w.samples = append(w.samples[:0], w.samples[drop:]...)
	}
	if counter {
		first := int64(0)
		if len(w.samples) == most {
			first = w.samples[0]
		}
		return value - first, int64(len(w.samples))
	}
	for _, s := range w.samples {
		over += s
	}
	return over, int64(len(w.samples))
}

// Process returns the recorder of one process.
func (e *Evaluator) Process(name string) telemetry.Recorder { return &recorder{e, name} }

// Ended forgets the gauges of a process that has ended, because it no longer exports them.
func (e *Evaluator) Ended(name string) {
	for _, gauges := range e.gauges {
		maps.DeleteFunc(gauges, func(g gauge, _ int64) bool { return g.process == name })
	}
}

type recorder struct {
	b       *Evaluator
	process string
}

// Listens implements telemetry.Recorder.
func (*recorder) Listens() bool { return true }

// Add implements telemetry.Recorder.
func (r *recorder) Add(f telemetry.Figure, n int64, l telemetry.Labels) {
	r.b.counters[f][l] += n
}

// Measured adds n measurements of a histogram; sum is their total in nanoseconds.
func (e *Evaluator) Measured(f telemetry.Figure, n, sum int64, l telemetry.Labels) {
	e.counters[f][l] += sum
	e.measured[f][l] += n
}

// Set implements telemetry.Recorder.
func (r *recorder) Set(f telemetry.Figure, v int64, l telemetry.Labels) {
	r.b.gauges[f][gauge{r.process, l}] = v
}

// Drop implements telemetry.Recorder.
func (r *recorder) Drop(f telemetry.Figure, dropped ...telemetry.Labels) {
	maps.DeleteFunc(r.b.gauges[f], func(g gauge, _ int64) bool {
		return g.process == r.process && (len(dropped) == 0 || slices.Contains(dropped, g.labels))
	})
}

// Observe implements telemetry.Recorder.
func (r *recorder) Observe(f telemetry.Figure, d time.Duration, l telemetry.Labels) {
	r.b.Measured(f, 1, int64(d), l)
}
