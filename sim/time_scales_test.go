package sim

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"handoff/chaos/scenario"
	"handoff/core/execution"
)

// TestDrawnClustersOnEveryTimeScale draws clusters in which every duration may be much shorter or longer than
// every other. Runs, outages, pauses and waits last from milliseconds up to ten times the longest drawn
// deadline. There may be more work than a batch or all workers take. The invariants judge each run.
//
// A third of the clusters have no fault at all, and in some only the database's clock is set. In these,
// only the action itself can cause a failure, so every chain of an action that never fails must complete.
//
// `.ci/drawn` runs the large sample.
func TestDrawnClustersOnEveryTimeScale(t *testing.T) {
	fixedDraws(t)
	rapid.Check(t, func(t *rapid.T) {
		d := drawTimeScales(t)
		s, err := scenario.Parse("drawn.yaml", []byte(d.text))
		if err != nil {
			t.Fatalf("the drawn scenario is refused: %v\n%s", err, d.text)
		}
		seed := rapid.Uint64Range(1, 1<<20).Draw(t, "seed")
		r := Run(s, s.Profiles[0], Options{Seed: seed})
		for _, v := range r.Violations {
			t.Errorf("seed %d: invariant %d: %s\n%s", seed, v.Invariant, v.Message, d.text)
		}
		if r.Panic != "" || r.GaveUp != "" {
			t.Errorf("seed %d: %s%s\n%s", seed, r.Panic, r.GaveUp, d.text)
			return
		}
		for _, complaint := range d.unexcused(r) {
			t.Errorf("seed %d: %s\n%s", seed, complaint, d.text)
		}
	})
}

// timeScales is a drawn cluster.
type timeScales struct {
	text string
	// mustComplete lists the actions whose chains must all complete.
	mustComplete map[string]bool
}

// unexcused lists the chains that did not complete although nothing in the run could prevent it.
func (ts *timeScales) unexcused(r *Result) (complaints []string) {
	last := make(map[execution.ID]*execution.Execution)
	for _, row := range r.world.finalRows() {
		if before, known := last[row.Chain()]; !known || row.RetryCount > before.RetryCount {
			last[row.Chain()] = row
		}
	}
	for _, row := range r.world.finalRows() {
		if end := last[row.Chain()]; end.ID == row.ID && ts.mustComplete[row.Action.Ref] && row.Status != execution.Completed {
			complaints = append(complaints, fmt.Sprintf("execution %d of %s, whose runs never fail, ended as %v (%v, %q) and no fault gave it a reason",
				row.ID, row.Action.Ref, row.Status, row.FailureReason, row.Result.Error))
		}
	}
	return complaints
}

// drawScaled draws a duration from least to most, log-uniformly.
func drawScaled(t *rapid.T, least, most time.Duration, what string) time.Duration {
	part := float64(rapid.IntRange(0, 1000).Draw(t, what)) / 1000
	d := time.Duration(float64(least) * math.Pow(float64(most)/float64(least), part))
	return min(most, d).Round(time.Millisecond)
}

// drawSpan returns a log_uniform duration, in YAML, from least to a maximum that is itself drawn between both
// bounds.
func drawSpan(t *rapid.T, least, most time.Duration, what string) string {
	return fmt.Sprintf("{log_uniform: [%v, %v]}", least, drawScaled(t, 2*least, most, what))
}

func drawTimeScales(t *rapid.T) *timeScales {
	d := &timeScales{mustComplete: make(map[string]bool)}
	var b strings.Builder
	// What happens to the cluster: nothing, steps of the database's clock, or faults.
	fate := rapid.SampledFrom([]string{"nothing", "nothing", "steps", "faults", "faults", "faults"}).Draw(t, "fate")
	profile := rapid.SampledFrom([]string{"hardened", "documented"}).Draw(t, "profile")
	dispatches := rapid.IntRange(1, 4).Draw(t, "dispatches")
	if fate == "steps" {
		// The documented profile fails every dispatch that is claimed too late, even after a clock
		// step.
		profile, dispatches = "hardened", max(2, dispatches)
	}
	fmt.Fprintf(&b, "name: drawn\nabout: Drawn.\nworlds: [sim]\nprofile: %s\ncluster:\n  executors: %d\n  workers:\n", profile, rapid.IntRange(1, 2).Draw(t, "executors"))
	for i := range rapid.IntRange(1, 4).Draw(t, "workers") {
		fmt.Fprintf(&b, "    w-%d: {runtimes: [shell], concurrency: %d}\n", i+1, rapid.SampledFrom([]int{1, 2, 3, 8}).Draw(t, "concurrency"))
	}
	dispatch := drawScaled(t, 5*time.Second, 5*time.Minute, "dispatch_timeout")
	ttl := dispatch + drawScaled(t, time.Second, 2*time.Minute, "ttl")
	backstop := ttl + drawScaled(t, time.Second, 5*time.Minute, "scheduled_timeout")
	beat := drawScaled(t, 2*time.Second, 10*time.Second, "heartbeat_interval")
	grace := rapid.SampledFrom([]time.Duration{0, 10 * time.Second, time.Minute}).Draw(t, "grace")
	if fate == "steps" {
		// A step ends every lease until the next heartbeat; without a grace period, executions that become
		// due in between would fail.
		grace = time.Minute
	}
	retryCap := rapid.SampledFrom([]time.Duration{10 * time.Second, 5 * time.Minute}).Draw(t, "retry_cap")
	fmt.Fprintf(&b, "config:\n  executor: {dispatch_timeout: %v, scheduled_timeout: %v, timeout_check_interval: %v, max_dispatches: %d, dispatch_ahead: %d, unschedulable_grace: %v, batch_size: %d}\n",
		dispatch, backstop, drawScaled(t, time.Second, time.Minute, "check"), dispatches,
		rapid.SampledFrom([]int{0, 1, 2, 10}).Draw(t, "ahead"), grace, rapid.SampledFrom([]int{1, 2, 5, 20, 100}).Draw(t, "batch_size"))
	fmt.Fprintf(&b, "  worker: {heartbeat_interval: %v, fence_margin: 4400ms, kill_grace: 2s, statement_timeout: %v}\n", max(beat, 3200*time.Millisecond), 2*time.Second)
	fmt.Fprintf(&b, "  message_queue: {rabbitmq: {worker_queue_ttl_ms: %d, dead_letter: {enabled: %v}}}\n", ttl.Milliseconds(), rapid.IntRange(0, 9).Draw(t, "dead_letter") > 0)
	fmt.Fprintf(&b, "  retry: {max_backoff_secs: %d}\nactions:\n", int(retryCap.Seconds()))

	top := 10 * max(backstop, 3*beat, grace, retryCap)
	calm := fate != "faults"
	for _, ref := range []string{"a", "b"} {
		d.drawAction(t, &b, ref, top, dispatch, calm)
	}
	longest := d.drawWorkload(t, &b, top, fate != "faults")
	switch fate {
	case "steps":
		// Each step may make every dispatch in progress miss its deadline, so there are fewer steps
		// than allowed dispatches.
		drawSteps(t, &b, rapid.IntRange(1, dispatches-1).Draw(t, "steps"))
	case "faults":
		b.WriteString("faults:\n")
		for range rapid.IntRange(1, 4).Draw(t, "faults") {
			fmt.Fprintf(&b, "  - {when: %s, %s}\n", drawWhen(t), drawFault(t, drawSpan(t, time.Second, top, "for")))
		}
	}
	fmt.Fprintf(&b, "settle: {within: %v}\n", min(longest, 29*24*time.Hour))
	d.text = b.String()
	return d
}

// drawSteps sets the database's clock forwards by up to ten minutes, several times, while there is
// work.
func drawSteps(t *rapid.T, b *strings.Builder, steps int) {
	b.WriteString("faults:\n")
	for range steps {
		fmt.Fprintf(b, "  - {when: {after: %s, nth: %d, plus: %dms}, clock_step: {of: database, by: %v}}\n",
			rapid.SampledFrom([]string{"scheduled", "claimed", "action_started"}).Draw(t, "trigger"), rapid.IntRange(1, 20).Draw(t, "nth"),
			rapid.IntRange(0, 50).Draw(t, "plus"), drawScaled(t, time.Second, 10*time.Minute, "by"))
	}
}

// drawAction draws an action whose timeout may be shorter or longer than its runs. In a third of
// the draws the action fails by itself.
func (ts *timeScales) drawAction(t *rapid.T, b *strings.Builder, ref string, top, dispatch time.Duration, calm bool) {
	takes := drawScaled(t, 20*time.Millisecond, top, "takes")
	timeout := rapid.SampledFrom([]time.Duration{takes / 2, takes + 10*time.Second, takes + 10*time.Second, 2*takes + 10*time.Second}).Draw(t, "timeout")
	timeout = max(timeout.Round(time.Millisecond), 10*time.Millisecond)
	fails := rapid.IntRange(0, 2).Draw(t, "fails") == 0
	fmt.Fprintf(b, "  %s: {runtime: shell, takes: {log_uniform: [10ms, %v]}, timeout: %v, max_retries: %d", ref, takes, timeout, rapid.IntRange(0, 2).Draw(t, "retries"))
	if fails {
		fmt.Fprintf(b, ", fails: {rate: %d%%, reason: %s}", rapid.IntRange(1, 50).Draw(t, "rate"),
			rapid.SampledFrom([]string{"connection reset", "validation", "transient", "unknown"}).Draw(t, "reason"))
	}
	if rapid.IntRange(0, 2).Draw(t, "limited") == 0 {
		fmt.Fprintf(b, ", concurrency: %d", rapid.IntRange(1, 3).Draw(t, "limit"))
	}
	if rapid.IntRange(0, 2).Draw(t, "hurried") == 0 {
		fmt.Fprintf(b, ", dispatch_timeout: %v", drawScaled(t, 5*time.Second, dispatch, "own dispatch_timeout"))
	}
	b.WriteString("}\n")
	ts.mustComplete[ref] = calm && !fails && timeout > takes
}

// drawWorkload draws a burst of each action, up to far more than a batch or all slots, partly
// pinned, and, if there are faults, cancellations. It returns how long the work takes if it is done
// one by one.
func (ts *timeScales) drawWorkload(t *rapid.T, b *strings.Builder, top time.Duration, calm bool) time.Duration {
	many := rapid.SampledFrom([]int{3, 10, 40}).Draw(t, "many")
	total := 0
	b.WriteString("workload:\n")
	// The first burst is submitted after the workers have registered: before that, an execution may fail
	// because there are no workers.
	for _, ref := range []string{"a", "b"} {
		n := rapid.IntRange(1, many).Draw(t, "count")
		total += n
		pin := rapid.SampledFrom([]string{"", "", "", ", pin: w-1"}).Draw(t, "pin")
		fmt.Fprintf(b, "  - {action: %s, count: %d, every: %v, from: %v%s}\n", ref, n, drawScaled(t, time.Millisecond, time.Minute, "every"),
			drawScaled(t, 5*time.Second, 2*time.Minute, "from"), pin)
	}
	if !calm && rapid.Bool().Draw(t, "cancelled") {
		fmt.Fprintf(b, "  - {cancel: {action: a, nth: 1, count: 1, after: {log_uniform: [10ms, %v]}}}\n", drawScaled(t, time.Second, top, "cancelled after"))
	}
	return time.Duration(3*total+3) * (top + time.Hour)
}
