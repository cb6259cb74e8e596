package sim

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"handoff/chaos/fault"
	"handoff/chaos/scenario"
)

// TestRandomSmallClusters draws clusters, configurations, workloads and faults, and judges the core by the
// invariants. rapid shrinks a failure, and the message contains the scenario file.
func TestRandomSmallClusters(t *testing.T) {
	fixedDraws(t)
	rapid.Check(t, func(t *rapid.T) {
		text := drawScenario(t)
		s, err := scenario.Parse("drawn.yaml", []byte(text))
		if err != nil {
			t.Fatalf("the drawn scenario is refused: %v\n%s", err, text)
		}
		seed := rapid.Uint64Range(1, 1<<20).Draw(t, "seed")
		r := Run(s, s.Profiles[0], Options{Seed: seed})
		for _, v := range r.Violations {
			t.Errorf("seed %d: invariant %d: %s\n%s", seed, v.Invariant, v.Message, text)
		}
		if r.Panic != "" || r.GaveUp != "" {
			t.Errorf("seed %d: %s%s\n%s", seed, r.Panic, r.GaveUp, text)
		}
	})
}

// fixedDraws makes every test run draw the same clusters; -rapid.seed draws other clusters.
func fixedDraws(t *testing.T) {
	t.Helper()
	if seed := flag.Lookup("rapid.seed"); seed != nil && seed.Value.String() == "0" {
		if err := flag.Set("rapid.seed", "1"); err != nil {
			t.Fatal(err)
		}
	}
}

func drawScenario(t *rapid.T) string {
	workers := rapid.IntRange(1, 4).Draw(t, "workers")
	var b strings.Builder
	fmt.Fprintf(&b, "name: drawn\nabout: Drawn.\nworlds: [sim]\nprofile: %s\ncluster:\n  executors: %d\n  workers:\n",
		rapid.SampledFrom([]string{"hardened", "documented"}).Draw(t, "profile"), rapid.IntRange(1, 3).Draw(t, "executors"))
	// The first worker has every runtime, so that each runtime has a worker.
	for i := range workers {
		runtimes := "shell, python"
		if i > 0 {
			runtimes = rapid.SampledFrom([]string{"shell", "python", "shell, python"}).Draw(t, "runtimes")
		}
		fmt.Fprintf(&b, "    w-%d: {runtimes: [%s], concurrency: %d}\n", i+1, runtimes, rapid.IntRange(1, 4).Draw(t, "concurrency"))
	}
	dispatch := rapid.IntRange(5, 60).Draw(t, "dispatch_timeout")
	ttl := dispatch + rapid.IntRange(1, 20).Draw(t, "ttl")
	fmt.Fprintf(&b, "config:\n  executor: {dispatch_timeout: %ds, scheduled_timeout: %ds, timeout_check_interval: %ds, max_dispatches: %d, dispatch_ahead: %d, unschedulable_grace: %ds}\n",
		dispatch, ttl+rapid.IntRange(1, 30).Draw(t, "scheduled_timeout"), rapid.IntRange(1, 10).Draw(t, "check"), rapid.IntRange(1, 3).Draw(t, "dispatches"),
		rapid.IntRange(0, 3).Draw(t, "ahead"), rapid.SampledFrom([]int{0, 10, 60}).Draw(t, "grace"))
	fmt.Fprintf(&b, "  message_queue: {rabbitmq: {worker_queue_ttl_ms: %d, queue_type: %s, dead_letter: {enabled: %v}}}\n",
		ttl*1000, rapid.SampledFrom([]string{"quorum", "classic"}).Draw(t, "queue"), rapid.IntRange(0, 9).Draw(t, "dead_letter") > 0)
	b.WriteString("actions:\n")
	drawAction(t, &b, "a", "shell", dispatch)
	drawAction(t, &b, "p", "python", dispatch)
	drawWorkload(t, &b, dispatch)
	faults := rapid.IntRange(0, 5).Draw(t, "faults")
	if faults > 0 {
		b.WriteString("faults:\n")
	}
	for range faults {
		lasts := time.Duration(rapid.IntRange(1, 60).Draw(t, "for")) * time.Second
		fmt.Fprintf(&b, "  - {when: %s, %s}\n", drawWhen(t), drawFault(t, lasts.String()))
	}
	return b.String()
}

func drawAction(t *rapid.T, b *strings.Builder, name, runtime string, dispatch int) {
	fmt.Fprintf(b, "  %s: {runtime: %s, takes: {uniform: [10ms, %ds]}, max_retries: %d, fails: {rate: %d%%, reason: %s}", name, runtime,
		rapid.IntRange(1, 40).Draw(t, "takes"), rapid.IntRange(0, 2).Draw(t, "retries"), rapid.IntRange(1, 50).Draw(t, "fails"),
		rapid.SampledFrom([]string{"connection reset", "validation", "transient", "unknown"}).Draw(t, "reason"))
	for option, most := range []int{20, 3, dispatch} {
		if n := rapid.IntRange(-most, most).Draw(t, "option"); n > 0 {
			fmt.Fprintf(b, []string{", timeout: %ds", ", concurrency: %d", ", dispatch_timeout: %ds"}[option], n)
		}
	}
	b.WriteString("}\n")
}

// drawWorkload draws executions of a, executions of p that may be workflow children of those, pinned
// executions, and cancellations.
func drawWorkload(t *rapid.T, b *strings.Builder, dispatch int) {
	count := rapid.IntRange(1, 12).Draw(t, "count")
	fmt.Fprintf(b, "workload:\n  - {action: a, count: %d, every: %dms, copies: %d%s}\n",
		count, rapid.IntRange(0, 3000).Draw(t, "every"), rapid.IntRange(1, 3).Draw(t, "copies"), drawLimits(t, dispatch))
	fmt.Fprintf(b, "  - {action: p, count: %d, every: %dms%s%s}\n", rapid.IntRange(1, count).Draw(t, "children"), rapid.IntRange(0, 2000).Draw(t, "every"),
		rapid.SampledFrom([]string{"", ", parent: a"}).Draw(t, "parent"), drawLimits(t, dispatch))
	if rapid.Bool().Draw(t, "pinned") {
		fmt.Fprintf(b, "  - {action: a, count: %d, every: 1s, from: %ds, pin: w-1}\n", rapid.IntRange(1, 4).Draw(t, "count"), rapid.IntRange(0, 60).Draw(t, "from"))
	}
	if rapid.Bool().Draw(t, "cancelled") {
		fmt.Fprintf(b, "  - {cancel: {action: %s, nth: 1, count: 1, after: {uniform: [0s, %ds]}}}\n",
			rapid.SampledFrom([]string{"a", "p"}).Draw(t, "cancelled"), rapid.IntRange(1, 30).Draw(t, "after"))
	}
}

// drawLimits draws the limits that the requests of a step set, mostly none.
func drawLimits(t *rapid.T, dispatch int) (limits string) {
	for option, most := range []int{20, dispatch} {
		if n := rapid.IntRange(-2*most, most).Draw(t, "limit"); n > 0 {
			limits += fmt.Sprintf([]string{", timeout: %ds", ", dispatch_timeout: %ds"}[option], n)
		}
	}
	if n := rapid.IntRange(-6, 3).Draw(t, "limit"); n >= 0 {
		limits += fmt.Sprintf(", max_retries: %d", n)
	}
	return limits
}

func drawWhen(t *rapid.T) string {
	if rapid.Bool().Draw(t, "triggered") {
		return fmt.Sprintf("{after: %s, nth: %d, plus: %dms}",
			rapid.SampledFrom([]string{"heartbeat", "registered", "scheduled", "delivered", "claimed", "action_started", "action_ended", "completed"}).Draw(t, "trigger"),
			rapid.IntRange(1, 6).Draw(t, "nth"), rapid.IntRange(0, 200).Draw(t, "plus"))
	}
	return fmt.Sprintf("{at: %dms}", rapid.IntRange(0, 60_000).Draw(t, "at"))
}

// drawFault draws a fault of any kind, using the kind's Draw. lasts is its duration, or the time until the
// restart of its process.
func drawFault(t *rapid.T, lasts string) string {
	cluster := fault.Cluster{Executors: []string{"executor-1"}, Workers: []string{"w-1"}}
	dice := &fault.Dice{Choose: func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "fault") }, Cluster: cluster}
	kinds := slices.DeleteFunc(fault.Kinds(), func(k *fault.Kind) bool { return k.Draw == nil || scenario.Lacks(k, scenario.Sim) != "" })
	k := rapid.SampledFrom(kinds).Draw(t, "kind")
	switch entry := k.Draw(dice); k.Ends {
	case fault.WithFor:
		return entry + ", for: " + lasts
	case fault.WithRestart:
		return entry + ", restart_after: " + lasts
	default:
		return entry
	}
}
