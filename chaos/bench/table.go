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

// table collects measurements by what was measured, in the order of their first.
type table struct {
	rates     []rateRow
	latencies []latencyRow
}

type rateRow struct {
	name string
	// perSecond has one figure for each repetition.
	perSecond []float64
}

type latencyRow struct {
	name    string
	samples []time.Duration
}

func newTable() *table { return &table{} }

// rate notes n things done in d.
func (t *table) rate(o options, name string, n int, d time.Duration) {
	figure := float64(n) / d.Seconds()
	if o.verbose {
		fmt.Fprintf(os.Stderr, "%s: %d in %v, %.0f/s\n", name, n, d.Round(time.Millisecond), figure)
	}
	for i := range t.rates {
		if t.rates[i].name == name {
			t.rates[i].perSecond = append(t.rates[i].perSecond, figure)
			return
		}
	}
	t.rates = append(t.rates, rateRow{name, []float64{figure}})
}

func (t *table) latency(name string, samples []time.Duration) {
	slices.Sort(samples)
	t.latencies = append(t.latencies, latencyRow{name, samples})
}

// replayName is the row that the others are compared with.
const replayName = "replay of statements and messages"

func (t *table) print(w io.Writer, o options) {
	fmt.Fprintf(w, "%d cores, %s/%s, %s; servers, daemons and clients share them\n", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	fmt.Fprintf(w, "%d noop executions a measurement, %d measurements; workers hold up to %d at a time\n\n", o.jobs, o.repeat, concurrency)
	ceiling := 0.0
	for _, r := range t.rates {
		if r.name == replayName {
			ceiling = median(r.perSecond)
		}
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "from created to orchestrated\tmedian/s\tlowest\thighest\tof the replay\t")
	for _, r := range t.rates {
		share := "-"
		if ceiling > 0 {
			share = fmt.Sprintf("%.0f %%", 100*median(r.perSecond)/ceiling)
		}
		fmt.Fprintf(out, "%s\t%.0f\t%.0f\t%.0f\t%s\t\n", r.name, median(r.perSecond), slices.Min(r.perSecond), slices.Max(r.perSecond), share)
	}
	if len(t.latencies) > 0 {
		fmt.Fprintln(out, "\t\t\t\t\t")
		fmt.Fprintln(out, "at 20 a second\tp50\tp99\tslowest\tsamples\t")
		for _, l := range t.latencies {
			fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%d\t\n", l.name, short(quantile(l.samples, 0.50)), short(quantile(l.samples, 0.99)), short(l.samples[len(l.samples)-1]), len(l.samples))
		}
	}
	_ = out.Flush()
}

func median(figures []float64) float64 {
	sorted := slices.Sorted(slices.Values(figures))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// quantile is the smallest sample that at least this share of all is not above.
func quantile(sorted []time.Duration, share float64) time.Duration {
	at := int(share*float64(len(sorted)) + 0.9999)
	return sorted[min(max(at, 1), len(sorted))-1]
}

func short(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }
