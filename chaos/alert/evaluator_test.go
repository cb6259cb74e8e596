package alert

import (
	"testing"
	"time"

	"handoff/core/telemetry"
)

// run takes n samples, calling feed before each, and returns the changes as text.
func run(b *Evaluator, from, n int, feed func(i int)) (story string) {
	for i := from; i < from+n; i++ {
		feed(i)
		for _, c := range b.Look(time.Duration(i) * telemetry.SampleInterval) {
			story += map[bool]string{true: "+", false: "-"}[c.Firing] + c.Alert + " "
		}
	}
	return story
}

// reporting returns an evaluator to which one executor has reported.
func reporting() *Evaluator {
	b := NewEvaluator()
	b.Process("executor-0").Set(telemetry.SampleAge, 0, telemetry.Labels{telemetry.SourceDatabase})
	return b
}

func TestAlertFiresAfterForAndResolves(t *testing.T) {
	b := reporting()
	r := b.Process("executor-1")
	set := func(n int64) func(int) {
		return func(int) { r.Set(telemetry.Workers, n, telemetry.Labels{"active", "live", "healthy"}) }
	}
	if s := run(b, 0, 4, func(int) {}); s != "" {
		t.Errorf("nothing is known, and %s", s)
	}
	if s := run(b, 4, 2, set(0)); s != "" {
		t.Errorf("before its time is over: %s", s)
	}
	if s := run(b, 6, 1, set(0)); s != "+no_active_workers " {
		t.Errorf("after 30 s: %s", s)
	}
	if s := run(b, 7, 1, set(1)); s != "-no_active_workers " {
		t.Errorf("a worker is back: %s", s)
	}
}

func TestGaugeUsesLargestReplica(t *testing.T) {
	b := reporting()
	b.Process("executor-1").Set(telemetry.DeadLettersOpen, 60, telemetry.Labels{})
	b.Process("executor-2").Set(telemetry.DeadLettersOpen, 60, telemetry.Labels{})
	if s := run(b, 0, 1, func(int) {}); s != "" {
		t.Errorf("two that count the same sixty: %s", s)
	}
	b.Process("executor-2").Set(telemetry.DeadLettersOpen, 101, telemetry.Labels{})
	if s := run(b, 1, 1, func(int) {}); s != "+dead_letters_open " {
		t.Errorf("more than a hundred: %s", s)
	}
	b.Ended("executor-2")
	if s := run(b, 2, 1, func(int) {}); s != "-dead_letters_open " {
		t.Errorf("who counted them is gone: %s", s)
	}
}

func TestRateCountsGrowthInWindow(t *testing.T) {
	b := reporting()
	r := b.Process("executor-1")
	add := func(n int64) func(int) {
		return func(int) { r.Add(telemetry.DeadLetters, n, telemetry.Labels{"expired", "reclaimed"}) }
	}
	if s := run(b, 0, 8, add(2)); s != "" {
		t.Errorf("eight a minute: %s", s)
	}
	if s := run(b, 8, 4, add(3)); s != "+dlq_rate " {
		t.Errorf("twelve a minute: %s", s)
	}
	if s := run(b, 12, 4, func(int) {}); s != "-dlq_rate " {
		t.Errorf("none a minute: %s", s)
	}
}

func TestPercentageNeedsMinimumSamples(t *testing.T) {
	b := reporting()
	r := b.Process("executor-1")
	end := func(n, retried int64) func(int) {
		return func(int) {
			r.Add(telemetry.Transitions, n, telemetry.Labels{"running", "failed", "worker", "connection"})
			r.Add(telemetry.Retries, retried, telemetry.Labels{"connection"})
		}
	}
	if s := run(b, 0, 1, end(19, 19)); s != "" {
		t.Errorf("nineteen are too few: %s", s)
	}
	if s := run(b, 1, 1, end(1, 1)); s != "+retry_rate +retry_rate_critical " {
		t.Errorf("twenty of twenty: %s", s)
	}
	if s := run(b, 2, 1, end(60, 0)); s != "-retry_rate_critical " {
		t.Errorf("twenty of eighty are not more than half: %s", s)
	}
	if s := run(b, 3, 1, end(20, 0)); s != "-retry_rate " {
		t.Errorf("exactly twenty per cent: %s", s)
	}
}

func TestWorkerPercentageIsMean(t *testing.T) {
	b := reporting()
	r := b.Process("executor-1")
	set := func(fine, stale int64) func(int) {
		return func(int) {
			r.Set(telemetry.Workers, fine, telemetry.Labels{"active", "live", "healthy"})
			r.Set(telemetry.Workers, stale, telemetry.Labels{"active", "stale", "unhealthy"})
		}
	}
	if s := run(b, 0, 19, set(0, 4)); s != "+no_active_workers " {
		t.Errorf("nineteen samples: %s", s)
	}
	if s := run(b, 19, 1, set(4, 0)); s != "-no_active_workers +unhealthy_workers +unhealthy_workers_critical " {
		t.Errorf("five minutes, nearly all of them stale: %s", s)
	}
}

func TestMeanNeedsMinimumMeasurements(t *testing.T) {
	b := reporting()
	r := b.Process("worker-1")
	took := func(n int, d time.Duration, stage string) func(int) {
		return func(int) {
			for range n {
				r.Observe(telemetry.StageSeconds, d, telemetry.Labels{stage})
			}
		}
	}
	if s := run(b, 0, 1, took(19, time.Minute, "handoff")); s != "" {
		t.Errorf("nineteen are too few: %s", s)
	}
	if s := run(b, 1, 1, took(100, 0, "scheduled")); s != "" {
		t.Errorf("another stage: %s", s)
	}
	if s := run(b, 2, 1, took(1, time.Minute, "handoff")); s != "+slow_handoff " {
		t.Errorf("twenty of a minute each: %s", s)
	}
	if s := run(b, 3, 1, took(220, 0, "handoff")); s != "-slow_handoff " {
		t.Errorf("exactly five seconds in the mean: %s", s)
	}
	run(b, 4, 20, func(int) {})
	if s := run(b, 24, 1, took(20, 6*time.Second, "handoff")); s != "+slow_handoff " {
		t.Errorf("what was measured more than five minutes ago does not count: %s", s)
	}
}

func TestAlertFiresWhenFigureIsAbsent(t *testing.T) {
	b := NewEvaluator()
	if s := run(b, 0, 4, func(int) {}); s != "" {
		t.Errorf("before its time is over: %s", s)
	}
	if s := run(b, 4, 1, func(int) {}); s != "+no_executors " {
		t.Errorf("after a minute: %s", s)
	}
	b.Process("executor-1").Set(telemetry.SampleAge, 0, telemetry.Labels{telemetry.SourceDatabase})
	if s := run(b, 5, 1, func(int) {}); s != "-no_executors " {
		t.Errorf("one reports: %s", s)
	}
	b.Ended("executor-1")
	if s := run(b, 6, 5, func(int) {}); s != "+no_executors " {
		t.Errorf("it is gone for a minute: %s", s)
	}
}
