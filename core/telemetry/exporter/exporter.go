// Package exporter exports the core's figures to Prometheus. No other package of the core knows
// Prometheus; the daemons inject it.
package exporter

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"handoff/core/telemetry"
)

// Exporter is a telemetry.Recorder whose figures Prometheus can scrape.
type Exporter struct {
	registry   *prometheus.Registry
	seconds    []bool
	labels     []int
	counters   []*prometheus.CounterVec
	gauges     []*prometheus.GaugeVec
	histograms []*prometheus.HistogramVec
}

var _ telemetry.Recorder = (*Exporter)(nil)

// New returns an exporter of every figure of the table, and of the process's own figures.
func New() *Exporter {
	table := telemetry.Table()
	e := &Exporter{
		registry: prometheus.NewRegistry(), seconds: make([]bool, len(table)), labels: make([]int, len(table)),
		counters: make([]*prometheus.CounterVec, len(table)), gauges: make([]*prometheus.GaugeVec, len(table)),
		histograms: make([]*prometheus.HistogramVec, len(table)),
	}
	e.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for f, info := range table {
		e.seconds[f], e.labels[f] = info.Seconds, len(info.Labels)
		switch info.Kind {
		case telemetry.Counter:
			e.counters[f] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: info.Name, Help: info.Help}, info.Labels)
			e.registry.MustRegister(e.counters[f])
		case telemetry.Gauge:
			e.gauges[f] = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: info.Name, Help: info.Help}, info.Labels)
			e.registry.MustRegister(e.gauges[f])
		case telemetry.Histogram:
			e.histograms[f] = prometheus.NewHistogramVec(prometheus.HistogramOpts{
				// The buckets range from a claim of milliseconds to a run of an hour.
				Name: info.Name, Help: info.Help, Buckets: prometheus.ExponentialBuckets(0.005, 3, 13),
			}, info.Labels)
			e.registry.MustRegister(e.histograms[f])
		}
	}
	return e
}

// Handler answers /metrics.
func (e *Exporter) Handler() http.Handler {
	return promhttp.HandlerFor(e.registry, promhttp.HandlerOpts{})
}

// Listens implements telemetry.Recorder.
func (*Exporter) Listens() bool { return true }

// Add implements telemetry.Recorder.
func (e *Exporter) Add(f telemetry.Figure, n int64, l telemetry.Labels) {
	e.counters[f].WithLabelValues(l[:e.labels[f]]...).Add(float64(n))
}

// Set implements telemetry.Recorder.
func (e *Exporter) Set(f telemetry.Figure, v int64, l telemetry.Labels) {
	value := float64(v)
	if e.seconds[f] {
		value = time.Duration(v).Seconds()
	}
	e.gauges[f].WithLabelValues(l[:e.labels[f]]...).Set(value)
}

// Drop implements telemetry.Recorder.
func (e *Exporter) Drop(f telemetry.Figure, series ...telemetry.Labels) {
	if len(series) == 0 {
		e.gauges[f].Reset()
	}
	for _, l := range series {
		e.gauges[f].DeleteLabelValues(l[:e.labels[f]]...)
	}
}

// Observe implements telemetry.Recorder.
func (e *Exporter) Observe(f telemetry.Figure, d time.Duration, l telemetry.Labels) {
	e.histograms[f].WithLabelValues(l[:e.labels[f]]...).Observe(d.Seconds())
}
