package invariant

import (
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/config"
	"handoff/core/execution"
)

func TestExecutorLookNeedsPeriodOrReason(t *testing.T) {
	c := config.Default(config.Hardened)
	interval, batch := c.Executor.ReconcileInterval, c.Executor.BatchSize
	row := []Found{{Key: execution.Key{ID: 1, Epoch: 1}, Status: execution.Running}}
	for _, test := range []struct {
		name   string
		looks  func(s *Suite, k *Looker)
		broken bool
	}{
		{"once a period", func(_ *Suite, k *Looker) {
			k.Asks(time.Second, LookEnds, batch, 0)
			k.Answered(time.Second, LookEnds, false, false, nil)
			k.Asks(time.Second+interval, LookEnds, batch, 0)
		}, false},
		{"again without a reason", func(_ *Suite, k *Looker) {
			k.Asks(time.Second, LookEnds, batch, 0)
			k.Answered(time.Second, LookEnds, false, false, nil)
			k.Asks(time.Second+interval/2, LookEnds, batch, 0)
		}, true},
		{"at once after a full batch", func(_ *Suite, k *Looker) {
			k.Asks(time.Second, LookEnds, batch, 0)
			k.Answered(time.Second, LookEnds, true, true, row)
			k.Asks(time.Second, LookEnds, batch, 0)
		}, false},
		{"the same row twice in one pass", func(_ *Suite, k *Looker) {
			k.Asks(time.Second, LookEnds, batch, 0)
			k.Answered(time.Second, LookEnds, true, true, row)
			k.Asks(time.Second, LookEnds, batch, 0)
			k.Answered(time.Second, LookEnds, false, false, row)
		}, true},
		{"no look after a full batch", func(s *Suite, k *Looker) {
			k.Asks(time.Minute, LookEnds, batch, 0)
			k.Answered(time.Minute, LookEnds, true, true, row)
			s.Observe(&history.Event{At: time.Minute + interval - time.Second, Kind: history.Quiescent})
		}, true},
		{"never", func(s *Suite, _ *Looker) {
			s.Observe(&history.Event{At: 10 * time.Minute, Kind: history.Quiescent})
		}, true},
		{"for a hint", func(_ *Suite, k *Looker) {
			k.Asks(time.Second, LookSchedule, batch, 0)
			k.Answered(time.Second, LookSchedule, false, false, nil)
			k.Woken(2*time.Second, 0)
			k.Asks(2*time.Second, LookSchedule, batch, 0)
		}, false},
		{"twice for one hint", func(_ *Suite, k *Looker) {
			k.Asks(time.Second, LookSchedule, batch, 0)
			k.Answered(time.Second, LookSchedule, false, false, nil)
			k.Woken(2*time.Second, 0)
			k.Asks(2*time.Second, LookSchedule, batch, 0)
			k.Answered(2*time.Second, LookSchedule, false, false, nil)
			k.Asks(2*time.Second, LookSchedule, batch, 0)
		}, true},
		{"for a hint that was held while the database was down", func(s *Suite, k *Looker) { afterOutage(s, k, true) }, false},
		{"without a reason after the database was down", func(s *Suite, k *Looker) { afterOutage(s, k, false) }, true},
		{"more than a batch", func(_ *Suite, k *Looker) { k.Asks(time.Second, LookSchedule, batch+1, 0) }, true},
		{"a period after each pass that ended at its limit of batches", func(s *Suite, k *Looker) {
			fullPasses(k, mostBatches, mostBatches, mostBatches)
			k.c.judgeLateLook(k, LookKeys, 3*sweepPeriod+10*time.Second, s.promptBound())
		}, false},
		{"no look after a full batch in the pass after one that ended at its limit", func(s *Suite, k *Looker) {
			fullPasses(k, mostBatches, mostBatches-1)
			k.c.judgeLateLook(k, LookKeys, 2*sweepPeriod+10*time.Second, s.promptBound())
		}, true},
		{"without a reason, after a pass that followed one that ended at its limit", func(_ *Suite, k *Looker) {
			fullPasses(k, mostBatches, mostBatches-1)
			k.Asks(2*sweepPeriod+time.Second, LookKeys, 1, execution.KeyLifetime)
			k.Answered(2*sweepPeriod+time.Second, LookKeys, false, false, nil)
			k.Asks(2*sweepPeriod+2*time.Second, LookKeys, 1, execution.KeyLifetime)
		}, true},
		{"keys that must be kept", func(_ *Suite, k *Looker) { k.Asks(time.Second, LookKeys, batch, time.Hour) }, true},
		{"keys that are old enough", func(_ *Suite, k *Looker) { k.Asks(time.Second, LookKeys, batch, execution.KeyLifetime) }, false},
		{"a failed probe recorded as ready", func(_ *Suite, k *Looker) { k.Tells(time.Second, 1, true, "refused") }, true},
	} {
		s := New(c, []int{18})
		s.Observe(&history.Event{Kind: history.ProcessStarted, Process: "e"})
		test.looks(s, s.Looks("e", 0))
		if got := len(s.Findings()) > 0; got != test.broken {
			t.Errorf("%s: broken %v, want %v: %v", test.name, got, test.broken, s.Findings())
		}
	}
}

// fullPasses makes one pass of looks for old keys per period, each with the given number of full batches.
func fullPasses(k *Looker, batches ...int) {
	for pass, n := range batches {
		for i := range n {
			at := time.Duration(pass+1)*sweepPeriod + time.Duration(i)*time.Millisecond
			k.Asks(at, LookKeys, 1, execution.KeyLifetime)
			k.Answered(at, LookKeys, true, true, nil)
		}
	}
}

func TestReconcilerReclaimsOnlyForItsReasons(t *testing.T) {
	for reason, ok := range map[execution.Reason]bool{execution.Transient: true, execution.WorkerUnavailable: true, execution.Connection: false, execution.QueueTimeout: false} {
		if got := takesBackFor(execution.Reconciler, reason); got != ok {
			t.Errorf("the reconciler reclaims because of %v: %v, want %v", reason, got, ok)
		}
	}
}

// afterOutage looks for work twice after a database outage. If told is set, a hint came during the outage,
// and a part of the executor could forward it only after the outage.
func afterOutage(s *Suite, k *Looker, told bool) {
	const back = 5 * time.Minute
	s.Observe(&history.Event{At: 10 * time.Second, Kind: history.DatabaseDown, Process: "database"})
	if told {
		k.Woken(12*time.Second, 0)
	}
	s.Observe(&history.Event{At: back, Kind: history.DatabaseUp, Process: "database"})
	for _, at := range []time.Duration{back, back + time.Second} {
		k.Began(at)
		k.Asks(at, LookSchedule, 1, 0)
		k.Answered(at, LookSchedule, false, false, nil)
	}
}

// A released row is retried soon. While a worker's queue hangs, the previous pass may wait for its confirms.
func TestReleasedRowIsRetriedInTime(t *testing.T) {
	c := config.Default(config.Hardened)
	const due = 10 * time.Minute
	soon := due + parkGrain + parkCalls
	again := New(c, nil).reconnectBound()
	for _, test := range []struct {
		name   string
		stuck  bool
		gaveUp time.Duration
		at     time.Duration
		broken bool
	}{
		{"in time", false, 0, soon, false},
		{"late", false, 0, soon + time.Millisecond, true},
		{"behind a queue that hangs", true, 0, soon + stuckWait, false},
		{"late behind a queue that hangs", true, 0, soon + stuckWait + time.Millisecond, true},
		{"after its session was given up", false, due, soon + again, false},
		{"late after its session was given up", false, due, soon + again + time.Millisecond, true},
		{"after its session was given up long before", false, due - again - time.Millisecond, soon + time.Millisecond, true},
	} {
		s := New(c, []int{18})
		s.Observe(&history.Event{Kind: history.ProcessStarted, Process: "e"})
		s.Observe(&history.Event{Kind: history.ProcessStarted, Process: "w"})
		joined := registered(1, 1, "shell")
		s.Observe(&joined)
		if test.gaveUp > 0 {
			s.GivenUp("e", test.gaveUp)
		}
		if test.stuck {
			s.Observe(&history.Event{At: due - time.Second, Kind: history.FaultBegan, Fault: "hangs", Text: "stuck_queue", Process: "w", Count: 1})
		}
		k := s.Looks("e", 0)
		k.Parks(due-time.Second, time.Second)
		k.Asks(test.at, LookSchedule, c.Executor.BatchSize, 0)
		late := slices.ContainsFunc(s.Findings(), func(f Finding) bool { return strings.Contains(f.Message, "gave a row back") })
		if late != test.broken {
			t.Errorf("%s: broken %v, want %v: %v", test.name, late, test.broken, s.Findings())
		}
	}
}

// A full batch must be followed by another look immediately. If the executor gives up its session with the
// broker, the look must follow once the executor has reconnected, at the latest with the next period.
func TestFullBatchRequiresPromptNextLook(t *testing.T) {
	c := config.Default(config.Hardened)
	const looked = 10 * time.Minute
	prompt := New(c, nil).promptBound()
	again := New(c, nil).reconnectBound()
	for _, test := range []struct {
		name       string
		look       Look
		by         string
		at, within time.Duration
	}{
		{"its session continues", LookSchedule, "", 0, 2 * prompt},
		{"it gives up its session", LookSchedule, "e", looked, again},
		{"it gives up its session while it publishes again", LookUnpublished, "e", looked, again},
		{"it gave up its session before", LookSchedule, "e", looked - 2*prompt, 2 * prompt},
		{"another executor gives up its session", LookSchedule, "f", looked, 2 * prompt},
		{"it gives up its session and handles ends", LookEnds, "e", looked, 2 * prompt},
	} {
		for _, late := range []bool{false, true} {
			s := New(c, []int{18})
			s.Observe(&history.Event{Kind: history.ProcessStarted, Process: "e"})
			k := s.Looks("e", 0)
			k.Asks(looked, test.look, c.Executor.BatchSize, 0)
			k.Answered(looked, test.look, true, true, nil)
			if test.by != "" {
				s.GivenUp(test.by, test.at)
			}
			at := looked + test.within
			if late {
				at += time.Millisecond
			}
			for l := range lookKinds {
				if l != test.look {
					k.kinds[l].answered = at
				}
			}
			s.Observe(&history.Event{At: at, Kind: history.Quiescent})
			found := slices.ContainsFunc(s.Findings(), func(f Finding) bool {
				return strings.Contains(f.Message, test.look.String()) && strings.Contains(f.Message, "has not looked again for the rest")
			})
			if found != late {
				t.Errorf("%s, late %v: broken %v: %v", test.name, late, found, s.Findings())
			}
		}
	}
}
