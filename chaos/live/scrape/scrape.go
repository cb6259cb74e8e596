// Package scrape parses a daemon's metrics page back into figures and passes them to the evaluator of the
// alert rules, as a Prometheus server would.
package scrape

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"handoff/chaos/alert"
	"handoff/core/telemetry"
)

// Reader feeds an evaluator with scraped figures. It is not safe for concurrent use.
type Reader struct {
	evaluator *alert.Evaluator
	// scale is the real duration, in seconds, of one second of a scenario.
	scale   float64
	table   []telemetry.Info
	figures map[string]telemetry.Figure
	// counted holds the latest value of every process's counters.
	counted map[counterKey]int64
}

type counterKey struct {
	process string
	figure  telemetry.Figure
	labels  telemetry.Labels
	// times reports whether the counter is a histogram's number of measurements, not their sum.
	times bool
}

// ErrForeign means that a page contains figures that this version doesn't export.
var ErrForeign = errors.New("not a figure of this version")

// prefix begins the names of all figures. Metrics without it concern a process's runtime.
const prefix = "handoff_"

// New returns a reader for processes whose durations are the scenario's durations multiplied by scale. It
// divides exported seconds by scale, because rules use the scenario's time scale.
func New(evaluator *alert.Evaluator, scale float64) *Reader {
	r := &Reader{
		evaluator: evaluator, scale: scale, table: telemetry.Table(), figures: make(map[string]telemetry.Figure), counted: make(map[counterKey]int64),
	}
	for f, info := range r.table {
		r.figures[info.Name] = telemetry.Figure(f)
	}
	return r
}

// sample is one parsed line of a metrics page.
type sample struct {
	figure telemetry.Figure
	labels telemetry.Labels
	// For a histogram, value is the sum of its measurements, and measured their number.
	value, measured int64
}

// Take reads one page of a process. Figures that the process no longer exports disappear, as in Prometheus.
// An error leaves the evaluator unchanged.
//
// Take assumes that a counter started at 0 with its process, and restarted if it is lower than before.
// Prometheus' increase() does the same with the feature created-timestamp-zero-ingestion, which uses a
// counter's creation time. Without the feature, it ignores a counter's first value.
func (r *Reader) Take(process string, text io.Reader) error {
	samples, err := r.parsePage(text)
	if err != nil {
		return err
	}
	recorder := r.evaluator.Process(process)
	r.Gone(process)
	for _, s := range samples {
		if r.table[s.figure].Kind == telemetry.Gauge {
			recorder.Set(s.figure, s.value, s.labels)
			continue
		}
		grown := r.counterGrowth(counterKey{process, s.figure, s.labels, false}, s.value)
		if r.table[s.figure].Kind == telemetry.Histogram {
			times := r.counterGrowth(counterKey{process, s.figure, s.labels, true}, s.measured)
			r.evaluator.Measured(s.figure, times, grown, s.labels)
			continue
		}
		if grown > 0 {
			recorder.Add(s.figure, grown, s.labels)
		}
	}
	return nil
}

// counterGrowth returns a counter's growth since the last page.
func (r *Reader) counterGrowth(c counterKey, value int64) int64 {
	grown := value - r.counted[c]
	if grown < 0 {
		grown = value
	}
	r.counted[c] = value
	return grown
}

// Gone removes the gauges of a process that did not answer.
func (r *Reader) Gone(process string) { r.evaluator.Ended(process) }

// parsePage parses a page, and omits the metrics of the runtime and of the connection pools.
func (r *Reader) parsePage(text io.Reader) (samples []sample, err error) {
	var parser expfmt.TextParser
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	for name, family := range families {
		// No rule uses the pools' figures, which the core does not report: they are read at each scrape.
		if !strings.HasPrefix(name, prefix) || slices.Contains(telemetry.PoolFigures(), name) {
			continue
		}
		figure, known := r.figures[name]
		if !known {
			return nil, fmt.Errorf("%w: %s", ErrForeign, name)
		}
		for _, m := range family.GetMetric() {
			s := sample{figure: figure}
			if s.labels, err = r.metricLabels(figure, m); err != nil {
				return nil, err
			}
			if s.value, err = r.metricValue(figure, m); err != nil {
				return nil, err
			}
			s.measured = int64(m.GetHistogram().GetSampleCount()) //nolint:gosec // no process measures that often
			samples = append(samples, s)
		}
	}
	return samples, nil
}

// metricLabels returns a line's labels in the order of the figure's table entry.
func (r *Reader) metricLabels(f telemetry.Figure, m *dto.Metric) (l telemetry.Labels, err error) {
	info := &r.table[f]
	values := make(map[string]string, len(info.Labels))
	for _, pair := range m.GetLabel() {
		values[pair.GetName()] = pair.GetValue()
	}
	for i, name := range info.Labels {
		value, has := values[name]
		if !has {
			return l, fmt.Errorf("%w: %s without the label %s", ErrForeign, info.Name, name)
		}
		l[i] = value
	}
	if len(values) != len(info.Labels) {
		return l, fmt.Errorf("%w: %s with the labels %v", ErrForeign, info.Name, values)
	}
	return l, nil
}

// metricValue returns a line's value in the recorder's unit.
func (r *Reader) metricValue(f telemetry.Figure, m *dto.Metric) (int64, error) {
	info := &r.table[f]
	var value float64
	switch {
	case info.Kind == telemetry.Counter && m.GetCounter() != nil:
		value = m.GetCounter().GetValue()
	case info.Kind == telemetry.Gauge && m.GetGauge() != nil:
		value = m.GetGauge().GetValue()
	case info.Kind == telemetry.Histogram && m.GetHistogram() != nil:
		value = m.GetHistogram().GetSampleSum()
	default:
		return 0, fmt.Errorf("%w: %s of another type", ErrForeign, info.Name)
	}
	if info.Seconds {
		value = value * float64(time.Second) / r.scale
	}
	return int64(math.Round(value)), nil
}
