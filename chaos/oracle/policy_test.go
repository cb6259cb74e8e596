package oracle_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"handoff/chaos/oracle"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// thousandth draws a factor with up to three decimals, as people write them.
func thousandth(from, to int) *rapid.Generator[float64] {
	return rapid.Custom(func(t *rapid.T) float64 { return float64(rapid.IntRange(from, to).Draw(t, "thousandths")) / 1000 })
}

func drawRetry(t *rapid.T) config.Retry {
	base := rapid.Int64Range(0, 600).Draw(t, "base")
	return config.Retry{
		Enabled: true, BaseBackoffSecs: base, MaxBackoffSecs: base + rapid.Int64Range(0, 3600).Draw(t, "above the base"),
		BackoffMultiplier: thousandth(1000, 10_000).Draw(t, "multiplier"), JitterFactor: thousandth(0, 999).Draw(t, "jitter"),
	}
}

// For every configuration and draw, the core's delay must lie in the oracle's window, and its extremes must
// reach both ends.
func TestCoreBackoffsLieInWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRetry(t)
		windows := oracle.NewBackoffs(&r)
		n := rapid.IntRange(0, config.MaxActionRetries).Draw(t, "n")
		w, share := windows.After(n), rapid.Uint64().Draw(t, "share")
		if got := r.Backoff(n, func(n uint64) uint64 { return share % n }); !w.Holds(got, 0) {
			t.Fatalf("the delay after %d others is %v, outside of %v to %v", n, got, w.Least, w.Most)
		}
		least, most := r.BackoffBounds(n)
		const rounding = 10 * time.Millisecond // for rounding the delay, its jitter and each preceding step
		if least-w.Least > rounding || w.Most-most > rounding {
			t.Fatalf("the core draws from %v to %v after %d others, and the window is %v to %v", least, most, n, w.Least, w.Most)
		}
	})
}

func TestWindowsGrowToCap(t *testing.T) {
	r := config.Default(config.Hardened).Retry
	b := oracle.NewBackoffs(&r)
	for n, want := range []oracle.Window{
		{Least: 800 * time.Millisecond, Most: 1200 * time.Millisecond},
		{Least: 1600 * time.Millisecond, Most: 2400 * time.Millisecond},
		{Least: 3200 * time.Millisecond, Most: 4800 * time.Millisecond},
		{Least: 6400 * time.Millisecond, Most: 9600 * time.Millisecond},
	} {
		if got := b.After(n); got != want {
			t.Errorf("after %d: %v, want %v", n, got, want)
		}
	}
	capped := oracle.Window{Least: 300 * time.Second, Most: 300 * time.Second}
	if got := b.After(8); got.Least != 204800*time.Millisecond || got.Most != 300*time.Second {
		t.Errorf("after 8: %v", got)
	}
	for _, n := range []int{9, 10, 100} {
		if got := b.After(n); got != capped {
			t.Errorf("after %d: %v", n, got)
		}
	}
}

// Counted take-backs raise the delay without limit, uncounted take-backs at most five times.
func TestUncountedTakeBacksRaiseDelayFiveTimes(t *testing.T) {
	for _, c := range []struct {
		counted int
		epoch   int64
		want    int
	}{{0, 1, 0}, {1, 3, 1}, {0, 3, 1}, {0, 11, 5}, {0, 13, 5}, {0, 101, 5}, {2, 5, 2}, {2, 7, 3}, {7, 15, 7}, {7, 31, 7}} {
		if got := oracle.TakenBack(c.counted, c.epoch); got != c.want {
			t.Errorf("%d counted, at epoch %d: %d, want %d", c.counted, c.epoch, got, c.want)
		}
	}
}

// Errors about a share of workers are most likely at the exact share, so each fleet is tested at the share
// and right next to it.
func TestCoreBrakesLikeOracle(t *testing.T) {
	for percent := 1; percent <= 100; percent++ {
		x := config.Executor{BrakeMinWorkers: 1 + percent%7, BrakeFraction: float64(percent) / 100}
		brakes := oracle.NewBrakes(&x)
		for alive := range 201 {
			for over := max(0, percent*alive/100-1); over <= min(alive, percent*alive/100+1); over++ {
				if core, want := x.Brakes(alive, over), brakes.Hold(alive, over); core != want {
					t.Fatalf("of %d alive %d are over, at %v of at least %d: the core brakes is %v, want %v", alive, over, x.BrakeFraction, x.BrakeMinWorkers, core, want)
				}
			}
		}
	}
}

func TestCoreJudgesHealthLikeOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHealth(t)
		total := rapid.IntRange(0, 60).Draw(t, "total")
		w := store.WorkerRow{
			Queued: rapid.IntRange(0, 130).Draw(t, "queued"),
			Figures: execution.Figures{
				Total: total, Failed: rapid.IntRange(0, total).Draw(t, "failed"), Consecutive: rapid.IntRange(0, 15).Draw(t, "consecutive"),
				LastFailure: time.Duration(rapid.IntRange(0, 100).Draw(t, "last")) * time.Second,
			},
		}
		for range rapid.IntRange(0, 12).Draw(t, "expired") {
			w.Expired = append(w.Expired, time.Duration(len(w.Expired)*rapid.IntRange(1, 60).Draw(t, "apart"))*time.Second)
		}
		e := oracle.Evidence{Total: w.Figures.Total, Failed: w.Figures.Failed, Consecutive: w.Figures.Consecutive, Queued: w.Queued}
		slices.Sort(w.Expired)
		for _, ago := range w.Expired {
			if ago <= h.Window {
				e.Unclaimed++
			}
		}
		judge := oracle.NewThresholds(&h)
		if core, want := h.Of(w.Evidence(h.Window), w.Queued), judge.Health(e); core != want {
			t.Fatalf("%+v, by %+v: the core says %v, want %v", e, h, core, want)
		}
		if core, want := h.Failing(w.Evidence(h.Window)), judge.Failing(e); core != want {
			t.Fatalf("%+v, by %+v: the core says that it fails is %v, want %v", e, h, core, want)
		}
	})
}

func drawHealth(t *rapid.T) config.Health {
	h := config.Health{
		Enabled:           rapid.IntRange(0, 9).Draw(t, "enabled") > 0,
		DegradedThreshold: rapid.IntRange(1, 10).Draw(t, "degraded"), QueueDepthDegraded: rapid.IntRange(1, 100).Draw(t, "queue degraded"),
		FailureRateDegraded: thousandth(1, 1000).Draw(t, "rate degraded"), Window: time.Duration(rapid.IntRange(1, 300).Draw(t, "window")) * time.Second,
		MinSamples: rapid.IntRange(1, 40).Draw(t, "samples"),
	}
	h.UnhealthyThreshold = h.DegradedThreshold + rapid.IntRange(0, 10).Draw(t, "unhealthy")
	h.QueueDepthUnhealthy = h.QueueDepthDegraded + rapid.IntRange(0, 100).Draw(t, "queue unhealthy")
	h.FailureRateUnhealthy = max(h.FailureRateDegraded, thousandth(1, 1000).Draw(t, "rate unhealthy"))
	return h
}

func TestCoreReasonsAndStatusesMatchOracle(t *testing.T) {
	for s := execution.None; int(s) < execution.Statuses; s++ {
		if s.Terminal() != oracle.Terminal(s) || s.Claimed() != oracle.Claimed(s) {
			t.Errorf("%v: terminal is %v and claimed is %v in the core", s, s.Terminal(), s.Claimed())
		}
	}
	for s := execution.None; int(s) < execution.Statuses; s++ {
		read, err := execution.ParseStatus(oracle.StatusName(s))
		if s.String() != oracle.StatusName(s) || read != s || (err == nil) != (s != execution.None) {
			t.Errorf("the status %q is called %q in the core, and read as %q, %v", oracle.StatusName(s), s, read, err)
		}
	}
	for p := execution.NoPart; int(p) < execution.Parts; p++ {
		if p.String() != oracle.PartName(p) {
			t.Errorf("the part %q is called %q in the core", oracle.PartName(p), p)
		}
	}
	if !slices.Equal(execution.Reasons(), oracle.ReasonNames()[1:]) {
		t.Errorf("the core's reasons are %q", execution.Reasons())
	}
	for r := range execution.Reason(len(execution.Reasons()) + 1) {
		if read, err := execution.ParseReason(oracle.ReasonNames()[r]); r.String() != oracle.ReasonNames()[r] || read != r || err != nil {
			t.Errorf("the reason %q is called %q in the core, and read as %q, %v", oracle.ReasonNames()[r], r, read, err)
		}
		if r.Retriable() != oracle.Retriable(r) || r.BlamesWorker() != oracle.BlamesWorker(r) || r.OfAction() != oracle.OfAction(r) {
			t.Errorf("%q: retriable is %v, blames the worker is %v, of an action is %v in the core", r, r.Retriable(), r.BlamesWorker(), r.OfAction())
		}
	}
	for l := execution.NoLifecycle; l <= execution.Lost; l++ {
		if l.Gone() != oracle.Gone(l) {
			t.Errorf("%v: gone is %v in the core", l, l.Gone())
		}
	}
}

func TestCoreTransitionTableMatchesOracle(t *testing.T) {
	core, table := execution.NewTransitionTable(), oracle.NewTransitionTable()
	for from := execution.None; int(from) < execution.Statuses; from++ {
		for to := execution.None; int(to) < execution.Statuses; to++ {
			if core.Legal(from, to) != table.Legal(from, to) {
				t.Errorf("%v to %v: legal is %v in the core", from, to, core.Legal(from, to))
			}
			for by := execution.NoPart; int(by) < execution.Parts; by++ {
				if core.May(by, from, to) != table.May(by, from, to) {
					t.Errorf("%v to %v by the %v: allowed is %v in the core", from, to, by, core.May(by, from, to))
				}
			}
		}
	}
}

func TestCoreTimesAndLimitsMatchOracle(t *testing.T) {
	seconds := func(t *rapid.T, name string, most int) time.Duration {
		return time.Duration(rapid.IntRange(0, most).Draw(t, name)) * time.Second
	}
	rapid.Check(t, func(t *rapid.T) {
		w := config.Worker{HeartbeatInterval: seconds(t, "beat", 60), HeartbeatStalenessMultiplier: rapid.IntRange(3, 20).Draw(t, "multiplier")}
		if w.Lease() != oracle.Lease(&w) {
			t.Fatalf("%+v: a lease of %v, want %v", w, w.Lease(), oracle.Lease(&w))
		}
		q := config.RabbitMQ{WorkerQueueTTLMS: rapid.Int64Range(1, 1e9).Draw(t, "ttl")}
		if q.WorkerQueueTTL() != oracle.QueueTTL(&q) {
			t.Fatalf("%d ms: %v", q.WorkerQueueTTLMS, q.WorkerQueueTTL())
		}
		q.DeadLetter.TTLMS = rapid.Int64Range(1, 1e9).Draw(t, "kept")
		if q.DeadLetter.Kept() != oracle.DeadLettersKept(&q) {
			t.Fatalf("dead letters of %d ms: %v", q.DeadLetter.TTLMS, q.DeadLetter.Kept())
		}
		a := execution.Action{Ref: "a", Timeout: seconds(t, "timeout", 3), DispatchTimeout: seconds(t, "dispatch timeout", 3), MaxRetries: rapid.IntRange(0, 3).Draw(t, "retries")}
		own := execution.Limits{
			Timeout: seconds(t, "own timeout", 3), DispatchTimeout: seconds(t, "own dispatch timeout", 3),
			MaxRetries: rapid.IntRange(0, 3).Draw(t, "own retries"), OwnRetries: rapid.Bool().Draw(t, "sets retries"),
		}
		got, want := own.On(a), oracle.Limited(a, own)
		if got != want || got.RunTimeout() != oracle.RunTimeout(&want) {
			t.Fatalf("%+v under %+v is %+v in the core, want %+v", a, own, got, want)
		}
		if back := execution.LimitsNamed(own.Names(), got).On(a); back != want {
			t.Fatalf("%+v, written and read again, makes %+v of %+v, want %+v", own, back, a, want)
		}
		e := execution.Execution{
			Action: got, Status: execution.Status(rapid.IntRange(0, execution.Statuses-1).Draw(t, "status")),
			FailureReason: execution.Reason(rapid.IntRange(0, len(execution.Reasons())).Draw(t, "reason")), RetryCount: rapid.IntRange(0, 4).Draw(t, "retry"),
		}
		if want := oracle.MayRetry(e.Status, e.FailureReason, e.RetryCount, e.Action.MaxRetries); e.Retriable() != want {
			t.Fatalf("%v, %q, retry %d of %d: retriable is %v", e.Status, e.FailureReason, e.RetryCount, e.Action.MaxRetries, e.Retriable())
		}
	})
	if execution.KeyLifetime != oracle.KeyLifetime || execution.DefaultTimeout != oracle.DefaultRunTimeout {
		t.Errorf("a key lives for %v, and an action without a timeout runs for %v", execution.KeyLifetime, execution.DefaultTimeout)
	}
}
