package exporter

import (
	"github.com/prometheus/client_golang/prometheus"

	"handoff/core/telemetry"
)

// pools are read at each scrape, unlike the figures of the table, which the core reports.
type pools struct {
	connections, waits, waited, resets *prometheus.Desc
	names                              []string
	use                                []func() telemetry.PoolUse
}

// Pools adds the figures of pools of connections to the database. It asks use[i] at every scrape
// for the pool names[i]. Call it once.
func (e *Exporter) Pools(names []string, use ...func() telemetry.PoolUse) {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"pool"}, labels...), nil)
	}
	e.registry.MustRegister(&pools{
		connections: describe(telemetry.PoolConnections, "Connections to the database, by pool (work, heartbeats, api) and state: in_use, idle, or most, which is how many there may be.", "state"),
		waits:       describe(telemetry.PoolWaits, "Calls that found no idle connection, by pool."),
		waited:      describe(telemetry.PoolWaited, "How long calls have waited for a connection, by pool."),
		resets:      describe(telemetry.PoolResets, "How often all connections of a pool were thrown away, because one had gone silent, or refused a write, while a new one was well."),
		names:       names, use: use,
	})
}

func (p *pools) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{p.connections, p.waits, p.waited, p.resets} {
		ch <- d
	}
}

func (p *pools) Collect(ch chan<- prometheus.Metric) {
	for i, name := range p.names {
		u := p.use[i]()
		for _, of := range []struct {
			state string
			n     int64
		}{{"in_use", u.InUse}, {"idle", u.Idle}, {"most", u.Most}} {
			ch <- prometheus.MustNewConstMetric(p.connections, prometheus.GaugeValue, float64(of.n), name, of.state)
		}
		ch <- prometheus.MustNewConstMetric(p.waits, prometheus.CounterValue, float64(u.Waits), name)
		ch <- prometheus.MustNewConstMetric(p.waited, prometheus.CounterValue, u.Waited.Seconds(), name)
		ch <- prometheus.MustNewConstMetric(p.resets, prometheus.CounterValue, float64(u.Resets), name)
	}
}
