package stress

import (
	"context"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// database is one process's client of the database model, for callers that are goroutines. Methods that the
// test does not call belong to the embedded client, and panic outside the kernel.
type database struct {
	store.Store
	servers *servers
	process *remote
}

// Executions implements store.Store.
func (da *database) Executions(ctx context.Context, ids []execution.ID) ([]execution.Execution, error) {
	return ask(ctx, da.servers, da.process, "Executions", func(ctx context.Context) ([]execution.Execution, error) { return da.Store.Executions(ctx, ids) })
}

// Actions implements store.Store.
func (da *database) Actions(ctx context.Context, q store.ActionQuery) ([]execution.Action, error) {
	return ask(ctx, da.servers, da.process, "Actions", func(ctx context.Context) ([]execution.Action, error) { return da.Store.Actions(ctx, q) })
}

// PutActions implements store.Store.
func (da *database) PutActions(ctx context.Context, actions []execution.Action) error {
	_, err := ask(ctx, da.servers, da.process, "PutActions", func(ctx context.Context) (struct{}, error) { return struct{}{}, da.Store.PutActions(ctx, actions) })
	return err
}

// Create implements store.Store.
func (da *database) Create(ctx context.Context, items []store.NewExecution) ([]store.Created, error) {
	return ask(ctx, da.servers, da.process, "Create", func(ctx context.Context) ([]store.Created, error) { return da.Store.Create(ctx, items) })
}

// List implements store.Store.
func (da *database) List(ctx context.Context, q store.ExecutionQuery) ([]store.Listed, error) {
	return ask(ctx, da.servers, da.process, "List", func(ctx context.Context) ([]store.Listed, error) { return da.Store.List(ctx, q) })
}

// Chain implements store.Store.
func (da *database) Chain(ctx context.Context, id execution.ID) ([]store.Listed, error) {
	return ask(ctx, da.servers, da.process, "Chain", func(ctx context.Context) ([]store.Listed, error) { return da.Store.Chain(ctx, id) })
}

// DeadLetters implements store.Store.
func (da *database) DeadLetters(ctx context.Context, q store.DeadLetterQuery) ([]store.StoredDeadLetter, error) {
	return ask(ctx, da.servers, da.process, "DeadLetters", func(ctx context.Context) ([]store.StoredDeadLetter, error) { return da.Store.DeadLetters(ctx, q) })
}

// SettleDeadLetter implements store.Store.
func (da *database) SettleDeadLetter(ctx context.Context, id int64, outcome, actor string) (bool, error) {
	return ask(ctx, da.servers, da.process, "SettleDeadLetter", func(ctx context.Context) (bool, error) { return da.Store.SettleDeadLetter(ctx, id, outcome, actor) })
}

// Observations implements store.Store.
func (da *database) Observations(ctx context.Context, q store.ObservationQuery) ([]store.Observation, error) {
	return ask(ctx, da.servers, da.process, "Observations", func(ctx context.Context) ([]store.Observation, error) { return da.Store.Observations(ctx, q) })
}

// DiscardDeadLetters implements store.Store.
func (da *database) DiscardDeadLetters(ctx context.Context, d store.DeadLetterDiscard, outcome string) (store.DeadLettersDiscarded, error) {
	return ask(ctx, da.servers, da.process, "DiscardDeadLetters", func(ctx context.Context) (store.DeadLettersDiscarded, error) {
		return da.Store.DiscardDeadLetters(ctx, d, outcome)
	})
}

// SummarizeDeadLetters implements store.Store.
func (da *database) SummarizeDeadLetters(ctx context.Context, q store.DeadLetterSummaryQuery) (store.DeadLetterSummary, error) {
	return ask(ctx, da.servers, da.process, "SummarizeDeadLetters", func(ctx context.Context) (store.DeadLetterSummary, error) {
		return da.Store.SummarizeDeadLetters(ctx, q)
	})
}

// Cancel implements store.Store.
func (da *database) Cancel(ctx context.Context, ids []execution.ID, actor string) ([]store.Cancellation, error) {
	return ask(ctx, da.servers, da.process, "Cancel", func(ctx context.Context) ([]store.Cancellation, error) { return da.Store.Cancel(ctx, ids, actor) })
}

// FindWorkers implements store.Store.
func (da *database) FindWorkers(ctx context.Context, q store.WorkerQuery) ([]store.WorkerRow, error) {
	return ask(ctx, da.servers, da.process, "FindWorkers", func(ctx context.Context) ([]store.WorkerRow, error) { return da.Store.FindWorkers(ctx, q) })
}

// SetCordon implements store.Store.
func (da *database) SetCordon(ctx context.Context, c store.Cordon) (bool, error) {
	return ask(ctx, da.servers, da.process, "SetCordon", func(ctx context.Context) (bool, error) { return da.Store.SetCordon(ctx, c) })
}

// Workers implements store.Store.
func (da *database) Workers(ctx context.Context, into []store.WorkerRow) ([]store.WorkerRow, error) {
	return ask(ctx, da.servers, da.process, "Workers", func(ctx context.Context) ([]store.WorkerRow, error) { return da.Store.Workers(ctx, into) })
}

// MarkQueuesDeleted implements store.Store.
func (da *database) MarkQueuesDeleted(ctx context.Context, ws []store.WorkerKey) ([]bool, error) {
	return ask(ctx, da.servers, da.process, "MarkQueuesDeleted", func(ctx context.Context) ([]bool, error) { return da.Store.MarkQueuesDeleted(ctx, ws) })
}

// ClaimForScheduling implements store.Store.
func (da *database) ClaimForScheduling(ctx context.Context, c store.SchedulingClaim) ([]execution.Execution, error) {
	return ask(ctx, da.servers, da.process, "ClaimForScheduling", func(ctx context.Context) ([]execution.Execution, error) { return da.Store.ClaimForScheduling(ctx, c) })
}

// DispatchDue implements store.Store.
func (da *database) DispatchDue(ctx context.Context, d store.DueDispatch) (store.DueDispatched, error) {
	return ask(ctx, da.servers, da.process, "DispatchDue", func(ctx context.Context) (store.DueDispatched, error) { return da.Store.DispatchDue(ctx, d) })
}

// Dispatch implements store.Store.
func (da *database) Dispatch(ctx context.Context, executor string, ds []store.Dispatch) ([]store.DispatchResult, error) {
	return ask(ctx, da.servers, da.process, "Dispatch", func(ctx context.Context) ([]store.DispatchResult, error) { return da.Store.Dispatch(ctx, executor, ds) })
}

// MarkPublished implements store.Store.
func (da *database) MarkPublished(ctx context.Context, keys []execution.Key) ([]execution.Key, error) {
	return ask(ctx, da.servers, da.process, "MarkPublished", func(ctx context.Context) ([]execution.Key, error) { return da.Store.MarkPublished(ctx, keys) })
}

// Park implements store.Store.
func (da *database) Park(ctx context.Context, executor string, ps []store.Park) ([]store.Outcome, error) {
	return ask(ctx, da.servers, da.process, "Park", func(ctx context.Context) ([]store.Outcome, error) { return da.Store.Park(ctx, executor, ps) })
}

// Find implements store.Store.
func (da *database) Find(ctx context.Context, f store.Finding) ([]execution.Execution, error) {
	return ask(ctx, da.servers, da.process, "Find", func(ctx context.Context) ([]execution.Execution, error) { return da.Store.Find(ctx, f) })
}

// Reclaim implements store.Store.
func (da *database) Reclaim(ctx context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	return ask(ctx, da.servers, da.process, "Reclaim", func(ctx context.Context) ([]store.Outcome, error) { return da.Store.Reclaim(ctx, rs) })
}

// ObserveReclaims implements store.Store.
func (da *database) ObserveReclaims(ctx context.Context, rs []store.Reclaim) ([]store.Observed, error) {
	return ask(ctx, da.servers, da.process, "ObserveReclaims", func(ctx context.Context) ([]store.Observed, error) { return da.Store.ObserveReclaims(ctx, rs) })
}

// ObserveWorkers implements store.Store.
func (da *database) ObserveWorkers(ctx context.Context, ws []store.ProbedWorker) ([]bool, error) {
	return ask(ctx, da.servers, da.process, "ObserveWorkers", func(ctx context.Context) ([]bool, error) { return da.Store.ObserveWorkers(ctx, ws) })
}

// PurgeObservations implements store.Store.
func (da *database) PurgeObservations(ctx context.Context, age time.Duration, limit int) (int, error) {
	return ask(ctx, da.servers, da.process, "PurgeObservations", func(ctx context.Context) (int, error) { return da.Store.PurgeObservations(ctx, age, limit) })
}

// Reap implements store.Store.
func (da *database) Reap(ctx context.Context, rs []store.Reap) ([]bool, error) {
	return ask(ctx, da.servers, da.process, "Reap", func(ctx context.Context) ([]bool, error) { return da.Store.Reap(ctx, rs) })
}

// Orchestrate implements store.Store.
func (da *database) Orchestrate(ctx context.Context, os []store.Orchestration) ([]store.Orchestrated, error) {
	return ask(ctx, da.servers, da.process, "Orchestrate", func(ctx context.Context) ([]store.Orchestrated, error) { return da.Store.Orchestrate(ctx, os) })
}

// SettleChildren implements store.Store.
func (da *database) SettleChildren(ctx context.Context, chains []execution.ID, most int) ([]store.Settled, error) {
	return ask(ctx, da.servers, da.process, "SettleChildren", func(ctx context.Context) ([]store.Settled, error) { return da.Store.SettleChildren(ctx, chains, most) })
}

// StoreDeadLetters implements store.Store.
func (da *database) StoreDeadLetters(ctx context.Context, ds ...store.DeadLetter) error {
	_, err := ask(ctx, da.servers, da.process, "StoreDeadLetters", func(ctx context.Context) (struct{}, error) { return struct{}{}, da.Store.StoreDeadLetters(ctx, ds...) })
	return err
}

// Purge implements store.Store.
func (da *database) Purge(ctx context.Context, p store.Purge) (store.Purged, error) {
	return ask(ctx, da.servers, da.process, "Purge", func(ctx context.Context) (store.Purged, error) { return da.Store.Purge(ctx, p) })
}

// PurgeDeadLetters implements store.Store.
func (da *database) PurgeDeadLetters(ctx context.Context, age time.Duration, limit int) (int, error) {
	return ask(ctx, da.servers, da.process, "PurgeDeadLetters", func(ctx context.Context) (int, error) { return da.Store.PurgeDeadLetters(ctx, age, limit) })
}

// Clock implements store.Store.
func (da *database) Clock(ctx context.Context) (time.Time, error) {
	return ask(ctx, da.servers, da.process, "Clock", func(ctx context.Context) (time.Time, error) { return da.Store.Clock(ctx) })
}

// Survey implements store.Store.
func (da *database) Survey(ctx context.Context) (store.Survey, error) {
	return ask(ctx, da.servers, da.process, "Survey", func(ctx context.Context) (store.Survey, error) { return da.Store.Survey(ctx) })
}

// FreeSlots implements store.Store.
func (da *database) FreeSlots(ctx context.Context, limit int) ([]execution.ID, error) {
	return ask(ctx, da.servers, da.process, "FreeSlots", func(ctx context.Context) ([]execution.ID, error) { return da.Store.FreeSlots(ctx, limit) })
}

// ForgetKeys implements store.Store.
func (da *database) ForgetKeys(ctx context.Context, age time.Duration, limit int) (int, error) {
	return ask(ctx, da.servers, da.process, "ForgetKeys", func(ctx context.Context) (int, error) { return da.Store.ForgetKeys(ctx, age, limit) })
}

// Newest implements store.Store.
func (da *database) Newest(ctx context.Context, name string) (execution.Incarnation, error) {
	return ask(ctx, da.servers, da.process, "Newest", func(ctx context.Context) (execution.Incarnation, error) { return da.Store.Newest(ctx, name) })
}

// Register implements store.Store.
func (da *database) Register(ctx context.Context, r store.Registration) (store.Registered, error) {
	return ask(ctx, da.servers, da.process, "Register", func(ctx context.Context) (store.Registered, error) { return da.Store.Register(ctx, r) })
}

// SetLifecycle implements store.Store.
func (da *database) SetLifecycle(ctx context.Context, w store.WorkerKey, to execution.Lifecycle) error {
	_, err := ask(ctx, da.servers, da.process, "SetLifecycle", func(ctx context.Context) (struct{}, error) { return struct{}{}, da.Store.SetLifecycle(ctx, w, to) })
	return err
}

// Heartbeat implements store.Store.
func (da *database) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	return ask(ctx, da.servers, da.process, "Heartbeat", func(ctx context.Context) (store.BeatReply, error) { return da.Store.Heartbeat(ctx, b) })
}

// Claim implements store.Store.
func (da *database) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	return ask(ctx, da.servers, da.process, "Claim", func(ctx context.Context) ([]store.ClaimResult, error) { return da.Store.Claim(ctx, w, cs) })
}

// Finish implements store.Store.
func (da *database) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	return ask(ctx, da.servers, da.process, "Finish", func(ctx context.Context) ([]store.Outcome, error) { return da.Store.Finish(ctx, w, fs) })
}

// Release implements store.Store.
func (da *database) Release(ctx context.Context, w store.WorkerKey) ([]execution.Key, error) {
	return ask(ctx, da.servers, da.process, "Release", func(ctx context.Context) ([]execution.Key, error) { return da.Store.Release(ctx, w) })
}

// KeepRefusedResult implements store.Store.
func (da *database) KeepRefusedResult(ctx context.Context, w store.WorkerKey, f store.Finish) error {
	_, err := ask(ctx, da.servers, da.process, "KeepRefusedResult", func(ctx context.Context) (struct{}, error) { return struct{}{}, da.Store.KeepRefusedResult(ctx, w, f) })
	return err
}

// Dispatched implements store.Store.
func (da *database) Dispatched(ctx context.Context, w store.WorkerKey, limit int) ([]execution.Execution, error) {
	return ask(ctx, da.servers, da.process, "Dispatched", func(ctx context.Context) ([]execution.Execution, error) { return da.Store.Dispatched(ctx, w, limit) })
}
