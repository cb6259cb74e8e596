// Package scrape turns a daemon's answer at /metrics back into the figures from which it was made,
// and passes them to the evaluator of the alert rules, like a Prometheus beside the daemons.
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

// Reader feeds an evaluator. Only one task at a time may use it.
type Reader struct {
	evaluator *alert.Evaluator
	// scale is the duration of one second of a scenario, in seconds.
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
	// times says that it counts a histogram's measurements, not their sum.
	times bool
}

// ErrForeign means that the text has figures that this version doesn't export.
var ErrForeign = errors.New("not a figure of this version")

// prefix begins the names of all figures; everything else that a process exports is about its
// runtime.
const prefix = "handoff_"

// New returns a reader for processes whose durations are those of the scenario times scale. It
// divides exported seconds by scale, because rules are on the scenario's time scale.
func New(evaluator *alert.Evaluator, scale float64) *Reader {
	r := &Reader{
		evaluator: evaluator, scale: scale, table: telemetry.Table(), figures: make(map[string]telemetry.Figure), counted: make(map[counterKey]int64),
	}
	for f, info := range r.table {
		r.figures[info.Name] = telemetry.Figure(f)
	}
	return r
}

// sample is one parsed line.
type sample struct {
	figure telemetry.Figure
	labels telemetry.Labels
	// value is, for a histogram, the sum of its measurements; measured is their number.
	value, measured int64
}

// Take takes one answer of a process. Figures that the process no longer exports are gone, as for
// Prometheus. After an error nothing has been taken.
//
// A counter is assumed to have started at 0 with its process, and to have restarted if it is lower
// than before. increase() does the same if Prometheus knows when a counter was created, that is,
// with its feature created-timestamp-zero-ingestion. Without the feature it ignores a counter's
// value at the first sight.
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

// counterGrowth is how much a counter has grown since the last answer.
func (r *Reader) counterGrowth(c counterKey, value int64) int64 {
	grown := value - r.counted[c]
	if grown < 0 {
		grown = value
	}
	r.counted[c] = value
	return grown
}

// Gone says that a process did not answer, so nothing exports its gauges.
func (r *Reader) Gone(process string) { r.evaluator.Ended(process) }

// parsePage parses an answer.
func (r *Reader) parsePage(text io.Reader) (samples []sample, err error) {
	var parser expfmt.TextParser
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	for name, family := range families {
		// No rule uses the pools' figures, and no process reports them: they are read at each
		// scrape.
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

// metricLabels returns a line's labels in the order of the table.
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

// metricValue is a line's value as it was given to the recorder.
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
