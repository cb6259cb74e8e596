package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"
)

// quietLoad is the highest load before a run at which rates are judged: above it, the machine does
// other work.
const quietLoad = 0.5

// table collects measurements by way of working, in the order of their first measurement.
type table struct {
	options   options
	load      float64
	ways      []*wayRows
	latencies []latencyRow
	purges    []*purgeMeasurement
}

// wayRows are the measurements of one way, one for each round.
type wayRows struct {
	name   string
	rounds map[int]*measurement
}

type latencyRow struct {
	name    string
	samples []time.Duration
}

func (t *table) addMeasurement(round int, m *measurement) {
	if t.options.verbose {
		fmt.Fprintf(os.Stderr, "%s: %d in %v, %.0f/s, %v each\n", m.way, m.n, m.took.Round(time.Millisecond), m.perSecond(), m.totalPerExecution())
	}
	rows := t.findWay(m.way)
	if rows == nil {
		rows = &wayRows{name: m.way, rounds: map[int]*measurement{}}
		t.ways = append(t.ways, rows)
	}
	rows.rounds[round] = m
}

func (t *table) findWay(name string) *wayRows {
	for _, w := range t.ways {
		if w.name == name {
			return w
		}
	}
	return nil
}

func (t *table) addLatency(name string, samples []time.Duration) {
	slices.Sort(samples)
	t.latencies = append(t.latencies, latencyRow{name, samples})
}

// allFigures are the figures of a way, one for each round.
func (w *wayRows) allFigures(figure func(*measurement) float64) []float64 {
	var figures []float64
	for _, m := range w.rounds {
		figures = append(figures, figure(m))
	}
	return figures
}

// ratiosTo are the figures of a way divided by those of another one in the same round.
func (w *wayRows) ratiosTo(other *wayRows, figure func(*measurement) float64) []float64 {
	var ratios []float64
	for round, m := range w.rounds {
		if o := other.rounds[round]; o != nil {
			ratios = append(ratios, figure(m)/figure(o))
		}
	}
	return ratios
}

func toMicros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func (t *table) printTable(w io.Writer) {
	fmt.Fprintf(w, "%d cores, %s/%s, %s; servers, daemons and clients share them; load before: %.2f\n", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), t.load)
	if len(t.ways) > 0 {
		t.printWays(w)
	}
	t.printLatencies(w)
	if len(t.purges) > 0 {
		t.printPurges(w)
	}
	if t.load >= quietLoad {
		fmt.Fprintf(w, "\nRates and latencies are not judged: the load before the run was %.2f, and %.1f is the most.\n", t.load, quietLoad)
	}
}

func (t *table) printWays(w io.Writer) {
	many := fmt.Sprintf("%d noop executions", t.options.jobs)
	if len(t.purges) > 0 {
		many = fmt.Sprintf("noop executions for %v, beside at least %d finished ones,", t.options.window, t.options.retention)
	}
	fmt.Fprintf(w, "%s a measurement, median of %d rounds in turn; workers hold up to %d at a time\n\n", many, t.options.rounds, concurrency)
	best, beside := t.findWay(riverBest), "River"
	if best == nil {
		best, beside = t.ways[0], "first"
		if best.name == emptyTables {
			beside = "empty"
		}
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(out, "µs of processor time an execution\tall\tof "+beside)
	for _, kind := range kinds {
		fmt.Fprintf(out, "\t%s", kind)
	}
	fmt.Fprintln(out, "\tWAL bytes\texecutions/s\tlowest\thighest\tof "+beside+"\t")
	for _, r := range t.ways {
		whole := func(m *measurement) float64 { return toMicros(m.totalPerExecution()) }
		fmt.Fprintf(out, "%s\t%.0f\t%.2f", r.name, median(r.allFigures(whole)), median(r.ratiosTo(best, whole)))
		for _, kind := range kinds {
			fmt.Fprintf(out, "\t%.0f", median(r.allFigures(func(m *measurement) float64 { return toMicros(m.timePerExecution(kind)) })))
		}
		rates := r.allFigures((*measurement).perSecond)
		fmt.Fprintf(out, "\t%.0f\t%.0f\t%.0f\t%.0f\t%.2f\t\n", median(r.allFigures(func(m *measurement) float64 { return float64(m.wal) / float64(m.n) })),
			median(rates), slices.Min(rates), slices.Max(rates), median(r.ratiosTo(best, (*measurement).perSecond)))
	}
	_ = out.Flush()
	fmt.Fprintln(w)
}

func (t *table) printLatencies(w io.Writer) {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "latency\tp50\tp99\tslowest\tsamples\t")
	for _, l := range t.latencies {
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%d\t\n", l.name, shortDuration(quantile(l.samples, 0.50)), shortDuration(quantile(l.samples, 0.99)), shortDuration(l.samples[len(l.samples)-1]), len(l.samples))
	}
	_ = out.Flush()
}

func median(figures []float64) float64 {
	sorted := slices.Sorted(slices.Values(figures))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// quantile is the smallest sample such that at least this share of all samples is not greater.
func quantile(sorted []time.Duration, share float64) time.Duration {
	at := int(share*float64(len(sorted)) + 0.9999)
	return sorted[min(max(at, 1), len(sorted))-1]
}

func shortDuration(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}

// addPurge adds a measurement during a retention.
func (t *table) addPurge(round int, p *purgeMeasurement) {
	t.addMeasurement(round, &p.measurement)
	slices.Sort(p.claims)
	t.purges = append(t.purges, p)
	name := "claim, " + p.way
	for i := range t.latencies {
		if l := &t.latencies[i]; l.name == name {
			l.samples = append(l.samples, p.claims...)
			slices.Sort(l.samples)
			return
		}
	}
	t.addLatency(name, slices.Clone(p.claims))
}

// printPurges prints what left in each measurement, and how much longer than in the same round without that
// a claim took.
func (t *table) printPurges(w io.Writer) {
	fmt.Fprintln(w)
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "a second\tcreated\tof age\tremoved\ttransitions\tbehind\taudit behind\tclaims\tp99\tof quiet\t")
	var ratios, halves []float64
	for i := 0; i+1 < len(t.purges); i += 2 {
		quiet, leaving := t.purges[i], t.purges[i+1]
		if quiet.way != nothingLeaves {
			quiet, leaving = leaving, quiet
		}
		for _, p := range []*purgeMeasurement{quiet, leaving} {
			s := p.window.Seconds()
			ratio := float64(quantile(p.claims, 0.99)) / float64(quantile(quiet.claims, 0.99))
			if p == leaving {
				ratios = append(ratios, ratio)
				halves = append(halves, float64(quantile(p.claims, 0.5))/float64(quantile(quiet.claims, 0.5)))
			}
			fmt.Fprintf(out, "%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.1f s\t%.1f s\t%d\t%s\t%.2f\t\n", p.way, p.created/s, p.ofAge/s, p.executions/s, p.transitions/s,
				p.behind.Seconds(), p.behindAudit.Seconds(), len(p.claims), shortDuration(quantile(p.claims, 0.99)), ratio)
		}
	}
	_ = out.Flush()
	fmt.Fprintf(w, "\nclaims beside a retention, of quiet, median of the rounds: p50 %.2f, p99 %.2f\n", median(halves), median(ratios))
}
