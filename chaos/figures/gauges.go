package figures

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"handoff/chaos/oracle"
	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// judgeGauge judges a gauge that the process has just set.
func (w *Watch) judgeGauge(f telemetry.Figure, v int64) {
	switch f {
	case telemetry.ReaperBrake, telemetry.DeadLetterPathBroken:
		w.j.judged++
		if v != 0 && v != 1 {
			w.recordViolation("%s is %d, and must be 0 or 1", w.j.table[f].Name, v)
		}
	case telemetry.DeadLetterQueueMessages:
		w.j.judged++
		switch {
		case w.queue == nil:
			w.recordViolation("%s is set to %d, and the broker has not reported it", w.j.table[f].Name, v)
		case v != int64(w.queue.Ready):
			w.recordViolation("%s is set to %d, and the broker said %d", w.j.table[f].Name, v, w.queue.Ready)
		}
	case telemetry.DeadLetterQueueConsumers:
		w.j.judged++
		switch {
		case w.queue == nil:
			w.recordViolation("%s is set to %d, and the broker has not reported it", w.j.table[f].Name, v)
		case v != int64(w.queue.Consumers):
			w.recordViolation("%s is set to %d, and the broker said %d", w.j.table[f].Name, v, w.queue.Consumers)
		}
		w.queue = nil
	default:
		w.sample.gaugeSet = w.sample.gaugeSet || sampledGauges[f]
	}
}

// sampledGauges are the gauges that the sampler computes from the database's answers.
var sampledGauges = map[telemetry.Figure]bool{
	telemetry.Executions: true, telemetry.OldestExecution: true, telemetry.OrchestrationLag: true, telemetry.Workers: true,
	telemetry.LeaseOverdue: true, telemetry.HeartbeatAge: true, telemetry.WorkerLoad: true, telemetry.WorkerLoadMean: true,
	telemetry.QueueDepth: true, telemetry.QueueDepthMean: true, telemetry.SlotsInUse: true, telemetry.DeadLettersOpen: true,
	telemetry.UnreadableRows: true, telemetry.StreamHeld: true, telemetry.UnclaimedAge: true, telemetry.UnfitAge: true,
}

// recordViolation records a wrong figure of this process, with its name and the time.
func (w *Watch) recordViolation(format string, args ...any) {
	w.j.recordViolation("%s at %v: "+format, append([]any{w.p.name, w.j.now()}, args...)...)
}

// expectGauge compares one gauge of the last sample with the value that follows from the database's answers.
func (w *Watch) expectGauge(f telemetry.Figure, want int64, labels ...string) {
	var l telemetry.Labels
	copy(l[:], labels)
	of := series{f, l}
	w.j.judged++
	if got, set := w.gauges[of]; !set {
		w.recordViolation("%s is not set, and the database said %d", w.j.seriesText(of), want)
	} else if got != want {
		w.recordViolation("%s is %d, and the database said %d", w.j.seriesText(of), got, want)
	}
}

// judgeSample compares the gauges with the database's last answers. It is called when the sampler starts its
// next sample, because all gauges must be set only then.
func (w *Watch) judgeSample() {
	s := &w.sample
	switch {
	case s.gaugeSet && !s.answered:
		w.recordViolation("figures are set, and the database has not answered with a survey and then the workers")
		return
	case !s.answered:
		w.judgeUnanswered()
		return
	}
	w.unanswered = 0
	var by [execution.Statuses]store.Waiting
	for _, waiting := range s.survey.Waiting {
		by[waiting.Status] = waiting
	}
	for status := execution.Requested; int(status) < len(by); status++ {
		if !oracle.Terminal(status) {
			w.expectGauge(telemetry.Executions, int64(by[status].Count), status.String())
			w.expectGauge(telemetry.OldestExecution, int64(by[status].Oldest), status.String())
		}
	}
	w.expectGauge(telemetry.OrchestrationLag, int64(s.survey.OrchestrationLag))
	w.expectGauge(telemetry.DeadLettersOpen, int64(s.survey.DeadLettersOpen))
	w.expectGauge(telemetry.UnclaimedAge, int64(s.survey.Unclaimed))
	w.expectGauge(telemetry.UnfitAge, int64(s.survey.Unfit))
	for _, in := range s.survey.Slots {
		w.expectGauge(telemetry.SlotsInUse, int64(in.Count), in.ActionRef)
	}
	w.expectGauge(telemetry.UnreadableRows, int64(s.survey.UnreadableCount), "execution")
	unreadable := int64(0)
	for i := range s.workers {
		if s.workers[i].Unreadable != "" {
			unreadable++
		}
	}
	w.expectGauge(telemetry.UnreadableRows, unreadable, "worker")
	w.judgeUnreadable(s.survey.UnreadableCount, int(unreadable))
	w.judgeWorkers(s.workers)
	w.judgeConditions(s.workers)
}

// judgeUnanswered requires that no sampled gauge is exported after two consecutive samples without an answer.
func (w *Watch) judgeUnanswered() {
	if w.sample.asked == nil {
		return
	}
	if w.unanswered++; w.unanswered < 2 {
		return
	}
	w.j.judged++
	for _, of := range slices.SortedFunc(maps.Keys(w.gauges), compareSeries) {
		if sampledGauges[of.figure] {
			w.recordViolation("%s is %d, and the database has not answered the last %d times", w.j.seriesText(of), w.gauges[of], w.unanswered)
			return
		}
	}
}

// judgeHidden requires that the gauge of an object that no longer exists is not exported.
func (w *Watch) judgeHidden(f telemetry.Figure, label string) {
	of := series{f, telemetry.Labels{label}}
	w.j.judged++
	if got, set := w.gauges[of]; set {
		w.recordViolation("%s is %d, and the database no longer has it", w.j.seriesText(of), got)
	}
}

// judgeWorkers compares the gauges of the workers' leases, heartbeats and loads.
func (w *Watch) judgeWorkers(workers []store.WorkerRow) {
	var overdue time.Duration
	var beats [execution.Lost + 1]time.Duration
	alive, load, queued := int64(0), int64(0), int64(0)
	for i := range workers {
		row := &workers[i]
		label := strconv.FormatInt(int64(row.ID), 10)
		if oracle.Gone(row.Lifecycle) {
			w.judgeHidden(telemetry.WorkerLoad, label)
			w.judgeHidden(telemetry.QueueDepth, label)
			continue
		}
		w.expectGauge(telemetry.WorkerLoad, int64(row.Load), label)
		w.expectGauge(telemetry.QueueDepth, int64(row.Queued), label)
		overdue, beats[row.Lifecycle] = max(overdue, row.LeaseOverFor), max(beats[row.Lifecycle], row.SinceBeat)
		alive, load, queued = alive+1, load+int64(row.Load), queued+int64(row.Queued)
	}
	w.expectGauge(telemetry.LeaseOverdue, int64(overdue))
	for lifecycle := execution.Starting; lifecycle <= execution.Lost; lifecycle++ {
		if !oracle.Gone(lifecycle) {
			w.expectGauge(telemetry.HeartbeatAge, int64(beats[lifecycle]), lifecycle.String())
		}
	}
	w.expectGauge(telemetry.WorkerLoadMean, load/max(1, alive))
	w.expectGauge(telemetry.QueueDepthMean, queued/max(1, alive))
}

// judgeConditions compares the exported number of workers in each condition with the database's. A worker
// that is healthy by its own reports may be shown as degraded if probes fail. Only the process knows the
// results of its probes.
func (w *Watch) judgeConditions(workers []store.WorkerRow) {
	probed := w.j.config.Executor.HealthProbes == config.Act && w.j.config.Health.Enabled
	const live, stale, deaf = 0, 1, 2
	names := [...]string{live: "live", stale: "stale", deaf: "deaf"}
	var counts [execution.Lost + 1][len(names)][execution.Unhealthy + 1]int64
	for i := range workers {
		row := &workers[i]
		condition, health := live, execution.Unhealthy
		switch {
		case row.LeaseOverFor > 0:
			condition = stale
		case !row.ConsumerAlive:
			condition = deaf
		default:
			health = w.j.expectedHealth(row)
		}
		counts[row.Lifecycle][condition][health]++
	}
	for lifecycle := execution.Starting; lifecycle <= execution.Lost; lifecycle++ {
		for condition, name := range names {
			n, of := &counts[lifecycle][condition], lifecycle.String()
			w.expectGauge(telemetry.Workers, n[execution.Unhealthy], of, name, execution.Unhealthy.String())
			if probed {
				healthy := w.gauges[series{telemetry.Workers, telemetry.Labels{of, name, execution.Healthy.String()}}]
				if n[execution.Healthy] > healthy && healthy >= 0 {
					n[execution.Degraded] += n[execution.Healthy] - healthy
					n[execution.Healthy] = healthy
				}
			}
			w.expectGauge(telemetry.Workers, n[execution.Healthy], of, name, execution.Healthy.String())
			w.expectGauge(telemetry.Workers, n[execution.Degraded], of, name, execution.Degraded.String())
		}
	}
}

// expectedHealth returns the health that follows from a worker's evidence.
func (j *Judge) expectedHealth(row *store.WorkerRow) execution.Health {
	e := oracle.Evidence{Total: row.Figures.Total, Failed: row.Figures.Failed, Consecutive: row.Figures.Consecutive, Queued: row.Queued}
	for _, ago := range row.Expired {
		if ago <= j.config.Health.Window {
			e.Unclaimed++
		}
	}
	return j.thresholds.Health(e)
}

// judgeFreshness requires that an executor samples its gauges on time, unless it is stalled.
func (w *Watch) judgeFreshness() {
	x := &w.j.config.Executor
	// Each unanswered call to the database or the broker takes its whole timeout, and a clock may drift.
	within := 2*x.FiguresInterval + 4*x.StatementTimeout
	if !w.samples || w.ending || w.fresh < 0 {
		return
	}
	w.j.judged++
	if gap := w.j.now() - w.fresh; gap > within {
		w.recordViolation("it has not asked for its figures for %v, and should ask every %v", gap, x.FiguresInterval)
	}
}

// judgeHealth compares an executor's readiness with its gauges and with its session.
func (w *Watch) judgeHealth() {
	if w.health == nil {
		return
	}
	broken := w.health.DeadLetterPath() != nil
	shown, tested := w.gauges[series{telemetry.DeadLetterPathBroken, telemetry.Labels{}}]
	want := w.j.config.MessageQueue.RabbitMQ.DeadLetter.Enabled && (!tested || shown == 1)
	w.j.judged += 2
	if broken != want {
		w.recordViolation("it reports a broken dead letter path: %t, and by its gauges that is %t", broken, want)
	}
	if w.health.Connected() && (w.session == nil || w.session.Closed() || w.session.Blocked()) {
		w.recordViolation("it reports that it is connected, and has no session that accepts a publish")
	}
}

// judgeUnreadable judges what an executor reports about unreadable rows.
func (w *Watch) judgeUnreadable(executions, workers int) {
	if w.health == nil {
		return
	}
	said, want := w.health.Unreadable(), ""
	if executions+workers > 0 {
		w.j.judged++
		want = fmt.Sprintf("%d executions and %d workers ", executions, workers)
	}
	if (said == "") != (want == "") || !strings.HasPrefix(said, want) {
		w.recordViolation("asked about unreadable rows it says %q, and the database named %d executions and %d workers", said, executions, workers)
	}
}

// judgeSuspicion requires a test of the dead letter path soon after the number of open dead letters has
// grown, whoever stored them. Whoever sends unreadable messages may also have sent one that makes the broker
// stop dead-lettering.
func (w *Watch) judgeSuspicion(open int) {
	now, x := w.j.now(), &w.j.config.Executor
	path := series{telemetry.DeadLetterPathBroken, telemetry.Labels{}}
	broken, tested := w.gauges[path]
	// The next test may have to wait for soonTested, and a test takes until its message has arrived.
	within := soonTested + broker.CanaryWait + 4*x.StatementTimeout
	switch {
	case !w.j.config.MessageQueue.RabbitMQ.DeadLetter.Enabled || w.ending:
		w.suspicious = -1
	case w.suspicious < 0:
	case !tested || broken != 0 || w.session == nil || w.session.Closed() || w.connected > w.suspicious || w.fresh < 0 || w.hindered > w.suspicious:
		// After a failed test the intervals grow, and without a usable session no test can start.
		w.suspicious = now
	case now-w.suspicious > within:
		w.j.judged++
		w.recordViolation("there are new open dead letters since %v, and the dead letter path has not been tested since; it must be within %v", w.suspicious, soonTested)
		w.suspicious = -1
	}
	if open > w.open && w.suspicious < 0 {
		w.suspicious = now
	}
	w.open = open
}

// soonTested is the maximum interval of tests of the dead letter path while unreadable messages arrive.
const soonTested = 30 * time.Second
