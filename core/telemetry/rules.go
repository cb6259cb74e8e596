package telemetry

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Rule is an alert. The same rule becomes an entry of the Prometheus rule file (RuleFile), and the
// harness evaluates it over a run (chaos/alert).
type Rule struct {
	Name     string
	Severity string
	Summary  string

	// Of selects the value. If Per is not nil, the value is Of as a percentage of Per.
	Of  Query
	Per *Query
	// The rule holds while the value is above Above; if Zero is set, while it is 0; if Absent is set, while
	// no process reports the figure. Above is a count, a number of seconds, or a percentage.
	Above  int64
	Zero   bool
	Absent bool
	// Samples is the minimum count of Per in its window, or the minimum number of samples of gauges or
	// measurements of a histogram: percentages and means of few samples prove nothing.
	Samples int64
	// For is how long the rule must hold before the alert fires.
	For time.Duration
}

// Query selects series of a figure. Without a window it is the current value of a gauge, summed over the
// labels, with the largest value of all replicas. With a window it is the increase of a counter, or the mean
// of a gauge or of a histogram's measurements.
type Query struct {
	Figure Figure
	// Match lists the allowed values of each label, in the order of the labels; an empty list
	// allows all.
	Match  [4][]string
	Window time.Duration
	// Largest selects the largest series instead of the sum of all, for current values only.
	Largest bool
}

// Matches reports whether a series is selected.
func (q *Query) Matches(l Labels) bool {
	for i, allowed := range q.Match {
		if len(allowed) > 0 && !slices.Contains(allowed, l[i]) {
			return false
		}
	}
	return true
}

// percentWindow and percentSamples apply to every alert about a percentage.
const (
	percentWindow  = 5 * time.Minute
	percentSamples = 20
)

// Rules lists every alert.
func Rules() []Rule {
	minute := func(f Figure, match ...[]string) Query { return newQuery(f, time.Minute, match...) }
	now := func(f Figure, match ...[]string) Query { return newQuery(f, 0, match...) }
	ends := newQuery(Transitions, percentWindow, nil, []string{"completed", "failed", "timeout", "abandoned"})
	all := newQuery(Workers, percentWindow, []string{"active"})
	retried := newQuery(Retries, percentWindow)
	lost := newQuery(Transitions, percentWindow, nil, []string{"failed", "timeout", "abandoned"}, nil, platformReasons())
	handoff := newQuery(StageSeconds, percentWindow, []string{StageHandoff})
	dispatched := newQuery(Transitions, 2*time.Minute, []string{"scheduled"})
	unfit := newQuery(Workers, percentWindow, []string{"active"}, nil, []string{"unhealthy"})
	return []Rule{
		{
			Name: "high_execution_timeout_rate", Severity: "warning", Above: 10,
			Summary: "More than 10 executions a minute end or are taken back because their time is over.",
			Of:      minute(Transitions, nil, nil, nil, []string{"run_timeout", "dispatch_timeout", "queue_timeout"}),
		},
		{
			Name: "no_active_workers", Severity: "critical", Zero: true, For: 30 * time.Second,
			Summary: "No active worker renews its lease and consumes: nothing can run.",
			Of:      now(Workers, []string{"active"}, []string{"live"}),
		},
		{
			// A working handler receives each message within milliseconds. It holds up to 50 that are not
			// counted here.
			Name: "dlq_buildup", Severity: "warning", Above: 100,
			Summary: "More than 100 messages wait in the broker's dead letter queue: its handler is slow or stands still.",
			Of:      now(DeadLetterQueueMessages),
		},
		{
			// A reconnect takes an executor seconds.
			Name: "dlq_unattended", Severity: "critical", Zero: true, For: time.Minute,
			Summary: "Nobody consumes the broker's dead letter queue: work that no worker picked up is only found by the timeout monitor.",
			Of:      now(DeadLetterQueueConsumers),
		},
		{
			// A failed canary is repeated within seconds, so a single late one does not make the alert fire.
			Name: "dead_letter_path_broken", Severity: "critical", Above: 0, For: 30 * time.Second,
			Summary: "Messages that die don't reach the dead letter queue: look at the exchange and its binding.",
			Of:      now(DeadLetterPathBroken),
		},
		{
			Name: "dead_letters_open", Severity: "warning", Above: 100,
			Summary: "More than 100 stored dead letters wait for somebody to look at them.",
			Of:      now(DeadLettersOpen),
		},
		{
			Name: "dlq_rate", Severity: "warning", Above: 10,
			Summary: "More than 10 dead letters a minute.",
			Of:      minute(DeadLetters),
		},
		{
			// The monitor's interval is added to the five minutes, so the alert does not fire at once (defect
			// D59).
			Name: "stale_executions", Severity: "warning", Above: 300, For: 90 * time.Second,
			Summary: "An execution has waited on a worker's queue for more than 5 minutes: nobody takes it back.",
			Of:      now(OldestExecution, []string{"scheduled"}),
		},
		{
			Name: "retry_rate", Severity: "warning", Above: 20, Samples: percentSamples,
			Summary: "More than 20 % of what ends is retried.",
			Of:      retried, Per: &ends,
		},
		{
			Name: "retry_rate_critical", Severity: "critical", Above: 50, Samples: percentSamples,
			Summary: "More than 50 % of what ends is retried.",
			Of:      retried, Per: &ends,
		},
		{
			// If one worker dies with a few executions, these are less than a tenth of 20 or more ends. If a
			// tenth is lost, the platform itself is failing.
			Name: "high_failure_rate", Severity: "warning", Above: 10, Samples: percentSamples,
			Summary: "More than 10 % of what ends fails for a reason of the platform: workers that are lost, away or don't pick up their work.",
			Of:      lost, Per: &ends,
		},
		{
			// A handoff takes milliseconds. A lost message is published again after the confirm timeout (10
			// s). A mean of half that time means that the broker, the database or the network is slow in
			// general.
			Name: "slow_handoff", Severity: "warning", Above: 5, Samples: percentSamples,
			Summary: "From dispatch to claim it takes more than 5 seconds on average although the workers have free slots: messages or claims are slow.",
			Of:      handoff,
		},
		{
			Name: "unhealthy_workers", Severity: "warning", Above: 30, Samples: percentSamples,
			Summary: "More than 30 % of the active workers fail what they run, leave it lying, don't consume or don't renew their lease.",
			Of:      unfit, Per: &all,
		},
		{
			Name: "unhealthy_workers_critical", Severity: "critical", Above: 70, Samples: percentSamples,
			Summary: "More than 70 % of the active workers fail what they run, leave it lying, don't consume or don't renew their lease.",
			Of:      unfit, Per: &all,
		},
		{
			// An executor sets this figure even if it can't reach its servers; a restart takes seconds.
			Name: "no_executors", Severity: "critical", Absent: true, For: time.Minute,
			Summary: "No executor reports its figures: none runs, or monitoring can't reach them.",
			Of:      now(SampleAge),
		},
		{
			Name: "orchestration_lag", Severity: "warning", Above: 60,
			Summary: "The end of an execution has not been handled for more than a minute: slots and retries wait.",
			Of:      now(OrchestrationLag),
		},
		{
			Name: "reaper_brake", Severity: "critical", Above: 0,
			Summary: "Too many workers lost their leases at once, and the reaper holds back: look at the database, the network and the machines.",
			Of:      now(ReaperBrake),
		},
		{
			// The age is above 30 seconds only after two failed reads in a row. A restart of the database
			// takes less time.
			Name: "database_unreachable", Severity: "critical", Above: 30, For: 30 * time.Second,
			Summary: "An executor has not been able to read the database for more than half a minute: what needs it waits, and its figures are not shown.",
			Of:      now(SampleAge, []string{SourceDatabase}),
		},
		{
			Name: "broker_unreachable", Severity: "critical", Above: 30, For: 30 * time.Second,
			Summary: "An executor has not been able to ask the broker for more than half a minute: it hands no work to workers.",
			Of:      now(SampleAge, []string{SourceBroker}),
		},
		{
			Name: "broker_blocked", Severity: "critical", Above: 0, For: 30 * time.Second,
			Summary: "The broker holds back what executors publish, because it is short of memory or disk space: no work reaches a worker.",
			Of:      now(BrokerBlocked),
		},
		{
			// A worker claims deliveries within milliseconds. A heartbeat reports every ten seconds whether a
			// slot is free.
			Name: "unclaimed_dispatches", Severity: "critical", Above: 60, For: 30 * time.Second,
			Summary: "A worker with a free slot has not claimed what was dispatched to it for more than a minute: its messages don't reach it.",
			Of:      now(UnclaimedAge),
		},
		{
			Name: "failed_dispatches", Severity: "critical", Above: 50, Samples: 5,
			Summary: "More than half of the dispatches of the last 2 minutes came to nothing: the broker did not take them, or had no queue for them.",
			Of:      newQuery(Transitions, 2*time.Minute, []string{"scheduled"}, nil, nil, []string{"unroutable", "transient"}),
			Per:     &dispatched,
		},
		{
			Name: "no_fitting_worker", Severity: "critical", Above: 60, For: 30 * time.Second,
			Summary: "An execution has found no worker that fits it for more than a minute: none is live and uncordoned, or none has its runtime.",
			Of:      now(UnfitAge),
		},
		{
			// Work may wait in a queue, so the limit is in minutes. Faults that stop work have separate
			// alerts, which fire sooner.
			Name: "backlog_age", Severity: "warning", Above: 600,
			Summary: "An execution has been due for more than 10 minutes, and no worker has got it: too few workers, or a limit of its action.",
			Of:      now(OldestExecution, []string{"requested"}),
		},
		{
			// A pass that fails once is repeated within seconds.
			Name: "loop_failing", Severity: "warning", Above: 60, For: 30 * time.Second,
			Summary: "Every pass of a periodic loop has failed for more than a minute: the log of that process says why.",
			Of:      Query{Figure: LoopFailing, Largest: true},
		},
		{
			Name: "change_stream_held", Severity: "warning", Above: 120,
			Summary: "A transaction that is open on the database server has held back the stream of changes for more than 2 minutes: readers get no events, and old ones can't be removed.",
			Of:      now(StreamHeld),
		},
	}
}

// platformReasons returns the failure reasons that are the platform's fault, not the action's.
// worker_shutdown is not among them, because an operator causes it.
func platformReasons() []string {
	return []string{
		"worker_unavailable", "no_workers", "queue_timeout", "dispatch_timeout", "unroutable", "worker_lost", "heartbeat_stale",
	}
}

func newQuery(f Figure, window time.Duration, match ...[]string) Query {
	q := Query{Figure: f, Window: window}
	copy(q.Match[:], match)
	return q
}

// RuleNames lists the alerts.
func RuleNames() []string {
	var names []string
	for _, r := range Rules() {
		names = append(names, r.Name)
	}
	return names
}

// runbook is the prefix of runbook_url before an alert's name, as a Prometheus template.
const runbook = "{{ with $externalLabels.handoff }}{{ . }}{{ else }}http://127.0.0.1:8080{{ end }}/playbooks/"

// RuleFile returns the rules as a Prometheus rule file.
func RuleFile() []byte {
	var b strings.Builder
	b.WriteString("# Generated from core/telemetry/rules.go: go test ./core/telemetry -run TestRuleFile -update\n")
	b.WriteString("# A counter comes into being with the first thing that it counts. Prometheus starts it at 0 if it runs with\n" +
		"# --enable-feature=created-timestamp-zero-ingestion; without that, what the first scrape of it finds is no increase.\n")
	b.WriteString("# runbook_url leads to the playbook that executors serve. Say in Prometheus' configuration where that is, as people\n" +
		"# reach it: global: {external_labels: {handoff: 'http://HOST:8080'}}. Without it, it is this machine's executor.\n")
	b.WriteString("groups:\n  - name: handoff\n    interval: " + promDuration(SampleInterval) + "\n    rules:\n")
	for _, r := range Rules() {
		fmt.Fprintf(&b, "      - alert: %s\n        expr: %q\n", r.Name, r.alertExpression())
		if r.For > 0 {
			fmt.Fprintf(&b, "        for: %s\n", promDuration(r.For))
		}
		fmt.Fprintf(&b, "        labels:\n          severity: %s\n        annotations:\n          summary: %q\n", r.Severity, r.Summary)
		if r.Of.Window == 0 && Table()[r.Of.Figure].Seconds && !r.Absent {
			b.WriteString("          for: \"{{ humanizeDuration $value }}\"\n")
		}
		fmt.Fprintf(&b, "          runbook_url: %q\n", runbook+r.Name)
	}
	return []byte(b.String())
}

func promDuration(d time.Duration) string { return fmt.Sprintf("%ds", int64(d/time.Second)) }

// alertExpression returns the rule in PromQL.
func (r *Rule) alertExpression() string {
	if r.Per == nil {
		if r.Absent {
			return fmt.Sprintf("absent(%s)", r.Of.seriesSelector())
		}
		if r.usesHistogram() {
			return fmt.Sprintf("%s > %d and %s >= %d", r.Of.valueExpression(), r.Above, r.Of.sampleCountExpression(), r.Samples)
		}
		if r.Zero {
			return r.Of.valueExpression() + " == 0"
		}
		return fmt.Sprintf("%s > %d", r.Of.valueExpression(), r.Above)
	}
	per := r.Per.valueExpression()
	return fmt.Sprintf("100 * %s / %s > %d and %s >= %d", r.Of.valueExpression(), per, r.Above, r.Per.sampleCountExpression(), r.Samples)
}

// usesHistogram reports whether the rule is about the mean of a histogram's measurements.
func (r *Rule) usesHistogram() bool { return Table()[r.Of.Figure].Kind == Histogram }

func (q *Query) seriesSelector() string { return q.selectorOf("") }

// selectorOf returns the selector of the series with a suffix in their name: a histogram has several series.
func (q *Query) selectorOf(suffix string) string {
	info := Table()[q.Figure]
	var matchers []string
	for i, allowed := range q.Match {
		switch len(allowed) {
		case 0:
		case 1:
			matchers = append(matchers, fmt.Sprintf(`%s=%q`, info.Labels[i], allowed[0]))
		default:
			matchers = append(matchers, fmt.Sprintf(`%s=~%q`, info.Labels[i], strings.Join(allowed, "|")))
		}
	}
	if len(matchers) == 0 {
		return info.Name + suffix
	}
	return info.Name + suffix + "{" + strings.Join(matchers, ",") + "}"
}

func (q *Query) valueExpression() string {
	info := Table()[q.Figure]
	switch info.Kind {
	case Counter:
		return q.increaseExpression("")
	case Histogram:
		return q.increaseExpression("_sum") + " / " + q.increaseExpression("_count")
	default:
	}
	// Each executor exports the gauges, so the query uses the largest value of the replicas.
	series := q.seriesSelector()
	if q.Window > 0 {
		series = fmt.Sprintf("avg_over_time(%s[%s])", series, promDuration(q.Window))
	}
	if len(info.Labels) == 0 || q.Largest {
		return "max(" + series + ")"
	}
	return fmt.Sprintf("sum(max by (%s) (%s))", strings.Join(info.Labels, ", "), series)
}

// increaseExpression returns the increase, within the window, of the series with a suffix in their name.
func (q *Query) increaseExpression(suffix string) string {
	return fmt.Sprintf("sum(increase(%s[%s]))", q.selectorOf(suffix), promDuration(q.Window))
}

// sampleCountExpression returns the expression that Rule.Samples bounds.
func (q *Query) sampleCountExpression() string {
	switch Table()[q.Figure].Kind {
	case Counter:
		return q.valueExpression()
	case Histogram:
		return q.increaseExpression("_count")
	default:
	}
	return fmt.Sprintf("max(count_over_time(%s[%s]))", q.seriesSelector(), promDuration(q.Window))
}
