package mutant

import (
	"context"
	"fmt"

	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// This file plants executors that change a row which they can't read, or that can't read other rows because
// of it.

func init() {
	registerMutants(
		Mutant{
			Name: "one-row-stops-all", Source: "D45", Expected: 26, Scenario: "rows-of-a-newer-release",
			About: "a claim for scheduling fails as a whole while one waiting row is unreadable",
			Store: func(p Process, s store.Store) store.Store {
				if p.Worker || p.Client {
					return s
				}
				return &unreadableBatchStore{Store: s, p: p}
			},
		},
		Mutant{
			Name: "reads-by-guess", Source: "D45", Expected: 2, Scenario: "rows-of-a-newer-release",
			About: "the unreadable values of a row are ignored, and the row is scheduled like any other",
			Statements: func(p Process, c Database) store.Store {
				if p.Worker || p.Client {
					return c
				}
				return &claimChangeStore{Store: c, change: func(ctx context.Context, _ store.SchedulingClaim, rows []execution.Execution) ([]execution.Execution, error) {
					survey, err := c.Survey(ctx)
					if err != nil || survey.UnreadableCount == 0 {
						return rows, nil
					}
					err = c.Step(ctx, func(tx Tx) {
						for _, u := range survey.Unreadable {
							row := tx.Row(u.ID)
							if row.Status != execution.Requested {
								continue
							}
							p.Acted("scheduled an unreadable row", u.ID)
							tx.Move(u.ID, execution.Scheduling, execution.Scheduler, execution.NoReason, func(e *execution.Execution) {
								e.SchedulingExpiresAt = tx.Now().Add(p.Config.Executor.ClaimExpiry)
							})
							rows = append(rows, *tx.Row(u.ID))
						}
					})
					return rows, err
				}}
			},
		},
		Mutant{
			Name: "unreadable-uncounted", Source: "D45", Expected: 15, Scenario: "rows-of-a-newer-release", Unread: true,
			About: "unreadable rows are left alone, and no figure counts them",
			Recorder: func(p Process, r telemetry.Recorder) telemetry.Recorder {
				return &labelRecorder{Recorder: r, set: func(f telemetry.Figure, v int64, _ telemetry.Labels) (telemetry.Figure, bool) {
					if f != telemetry.UnreadableRows || v == 0 {
						return f, true
					}
					p.Acted("did not report unreadable rows")
					return f, false
				}}
			},
		},
	)
}

// unreadableBatchStore is a store whose claims for scheduling fail while one of the waiting rows can't be
// read.
type unreadableBatchStore struct {
	store.Store
	p Process
}

// DispatchDue implements store.Store.
func (u *unreadableBatchStore) DispatchDue(context.Context, store.DueDispatch) (store.DueDispatched, error) {
	return inTwoSteps()
}

// ClaimForScheduling implements store.Executor.
func (u *unreadableBatchStore) ClaimForScheduling(ctx context.Context, c store.SchedulingClaim) ([]execution.Execution, error) {
	survey, err := withoutJudge(u.Store).Survey(ctx)
	if err == nil && survey.UnreadableCount > 0 {
		u.p.Acted("failed a claim because one row can't be read")
		return nil, fmt.Errorf("%w: %s", store.ErrUnreadable, survey.Unreadable[0].Why)
	}
	return u.Store.ClaimForScheduling(ctx, c)
}
