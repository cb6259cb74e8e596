package mutant

import (
	"context"
	"time"

	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// This file plants figures and log lines that differ from what was measured, found or done.

func init() {
	registerMutants(
		Mutant{
			Name: "first-pass-late", Source: "D59", Expected: 15, Scenario: "slow-handoffs", Unread: true,
			About: "the first pass of a loop is reported as late by the whole time that its process has run",
			Recorder: func(p Process, r telemetry.Recorder) telemetry.Recorder {
				told := make(map[string]bool)
				return &durationRecorder{r, func(inner telemetry.Recorder, f telemetry.Figure, d time.Duration, l telemetry.Labels) {
					if f == telemetry.LoopSeconds && !told[l[0]] {
						told[l[0]] = true
						p.Acted("reported how late a first pass was")
						inner.Observe(telemetry.LoopLag, time.Minute, l)
					}
					inner.Observe(f, d, l)
				}}
			},
		},
		Mutant{
			Name: "deaths-measured-by-patience", Source: "D59", Expected: 15, Scenario: "dead-letter-flood", Unread: true,
			About: "the time of a dead letter is measured to the moment at which it would have been given up, not to its handling",
			Recorder: func(p Process, r telemetry.Recorder) telemetry.Recorder {
				return &durationRecorder{r, func(inner telemetry.Recorder, f telemetry.Figure, d time.Duration, l telemetry.Labels) {
					if f == telemetry.DeadLetterSeconds {
						p.Acted("measured a time up to a later moment than its end")
						d += 20 * time.Second
					}
					inner.Observe(f, d, l)
				}}
			},
		},
		Mutant{
			Name: "given-up-for-no-reason", Source: "D19", Expected: 15, Scenario: "dead-letters-refused", Unread: true,
			About: "a dead letter that is given up is counted without the reason of its message's death",
			Recorder: countingUnder("counted a dead letter without a reason", func(f telemetry.Figure, l telemetry.Labels) (telemetry.Labels, bool) {
				return telemetry.Labels{"", l[1]}, f == telemetry.DeadLetters && l[1] == "unhandled"
			}),
		},
		Mutant{
			Name: "observer-unnamed", Source: "D59", Expected: 15, Scenario: "observed-beyond-a-batch", Unread: true,
			About: "the observations of a part are counted without the part's name",
			Recorder: countingUnder("counted an observation for no part", func(f telemetry.Figure, l telemetry.Labels) (telemetry.Labels, bool) {
				return telemetry.Labels{l[1]}, f == telemetry.Observed
			}),
		},
		Mutant{
			Name: "garbage-of-others", Source: "D17", Expected: 15, Scenario: "letters-of-workers", Unread: true,
			About: "unreadable messages do not bring the next test of the dead letter path forward",
			Host: func(p Process, h host.Host) host.Host {
				if p.Worker {
					return h
				}
				return &slowPauseHost{h, p, 30 * time.Second, 4 * time.Minute}
			},
		},
		Mutant{
			Name: "observes-one-tells-another", Source: "D28", Expected: 29, Scenario: "monitor-and-probes-observe",
			About: "the log of a timeout monitor that only observes reports a failure although it recorded a new dispatch",
			Store: changeAnswers(answerChangeStore{would: execution.Failed}),
		},
		Mutant{
			Name: "early-deaths-count", Source: "D35", Expected: 2, Scenario: "step-past-late-dispatches",
			About: "a dispatch that died early, because the database's clock was set, counts as left unclaimed",
			Store: changeAnswers(answerChangeStore{counts: true}),
		},
		Mutant{
			Name: "sweep-ends-early", Source: "D22", Expected: 18, Scenario: "slots-edited-by-hand",
			About: "a sweep of slots takes a full batch for the last one",
			Store: changeAnswers(answerChangeStore{fewer: true}),
		},
	)
}

// durationRecorder changes measured durations.
type durationRecorder struct {
	telemetry.Recorder
	observe func(inner telemetry.Recorder, f telemetry.Figure, d time.Duration, l telemetry.Labels)
}

// Observe implements telemetry.Recorder.
func (dr *durationRecorder) Observe(f telemetry.Figure, d time.Duration, l telemetry.Labels) {
	dr.observe(dr.Recorder, f, d, l)
}

// countingUnder changes the labels of a counter.
func countingUnder(text string, of func(f telemetry.Figure, l telemetry.Labels) (telemetry.Labels, bool)) func(Process, telemetry.Recorder) telemetry.Recorder {
	return func(p Process, r telemetry.Recorder) telemetry.Recorder {
		return &labelRecorder{Recorder: r, add: func(f telemetry.Figure, l telemetry.Labels) (telemetry.Labels, bool) {
			if shown, other := of(f, l); other {
				p.Acted(text)
				return shown, true
			}
			return l, true
		}}
	}
}

// slowPauseHost is a machine on which a short pause of this length becomes a long one.
type slowPauseHost struct {
	host.Host
	p           Process
	pause, long time.Duration
}

// Sleep implements host.Host.
func (s *slowPauseHost) Sleep(ctx context.Context, d time.Duration) error {
	if d == s.pause {
		s.p.Acted("waited longer than it may after unreadable messages")
		d = s.long
	}
	return s.Host.Sleep(ctx, d)
}

// answerChangeStore is an executor's store that changes the answers to its statements.
type answerChangeStore struct {
	store.Store
	p Process
	// would replaces the status of an observation, unless it is None. counts makes each reclaim by the dead
	// letter handler count. fewer omits one of the freed slots from the answer.
	would         execution.Status
	counts, fewer bool
}

func changeAnswers(as answerChangeStore) func(Process, store.Store) store.Store {
	return func(p Process, s store.Store) store.Store {
		own := as
		own.Store, own.p = s, p
		return &own
	}
}

// ObserveReclaims implements store.Executor.
func (a *answerChangeStore) ObserveReclaims(ctx context.Context, rs []store.Reclaim) ([]store.Observed, error) {
	seen, err := a.Store.ObserveReclaims(ctx, rs)
	for i := range seen {
		if a.would != execution.None && seen[i].New && seen[i].Would == execution.Requested {
			a.p.Acted("reported another status than it recorded", rs[i].Key.ID)
			seen[i].Would = a.would
		}
	}
	return seen, err
}

// Reclaim implements store.Executor.
func (a *answerChangeStore) Reclaim(ctx context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	for i := range rs {
		r := &rs[i]
		byTime := r.Reason == execution.QueueTimeout || r.Reason == execution.DispatchTimeout
		if a.counts && r.By == execution.DeadLetterHandler && byTime && !r.Counts {
			a.p.Acted("counted a dispatch that had not waited for its whole time", r.Key.ID)
			r.Counts = true
		}
	}
	return a.Store.Reclaim(ctx, rs)
}

// FreeSlots implements store.Executor.
func (a *answerChangeStore) FreeSlots(ctx context.Context, limit int) ([]execution.ID, error) {
	freed, err := a.Store.FreeSlots(ctx, limit)
	if a.fewer && len(freed) > 1 {
		a.p.Acted("reported one freed slot fewer")
		freed = freed[1:]
	}
	return freed, err
}
