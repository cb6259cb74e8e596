package stress

import (
	"context"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// database is the model's client of one process, for callers that are goroutines. Methods that the
// test does not call are those of the embedded client, and panic outside of the kernel.
type database struct {
	store.Store
	servers *servers
	process *remote
}

// Executions implements store.Store.
func (x *database) Executions(ctx context.Context, ids []execution.ID) ([]execution.Execution, error) {
	return ask(ctx, x.servers, x.process, "Executions", func(ctx context.Context) ([]execution.Execution, error) { return x.Store.Executions(ctx, ids) })
}

// Actions implements store.Store.
func (x *database) Actions(ctx context.Context, q store.ActionQuery) ([]execution.Action, error) {
	return ask(ctx, x.servers, x.process, "Actions", func(ctx context.Context) ([]execution.Action, error) { return x.Store.Actions(ctx, q) })
}

// PutActions implements store.Store.
func (x *database) PutActions(ctx context.Context, actions []execution.Action) error {
	_, err := ask(ctx, x.servers, x.process, "PutActions", func(ctx context.Context) (struct{}, error) { return struct{}{}, x.Store.PutActions(ctx, actions) })
	return err
}

// Create implements store.Store.
func (x *database) Create(ctx context.Context, items []store.NewExecution) ([]store.Created, error) {
	return ask(ctx, x.servers, x.process, "Create", func(ctx context.Context) ([]store.Created, error) { return x.Store.Create(ctx, items) })
}

// List implements store.Store.
func (x *database) List(ctx context.Context, q store.ExecutionQuery) ([]store.Listed, error) {
	return ask(ctx, x.servers, x.process, "List", func(ctx context.Context) ([]store.Listed, error) { return x.Store.List(ctx, q) })
}

// Chain implements store.Store.
func (x *database) Chain(ctx context.Context, id execution.ID) ([]store.Listed, error) {
	return ask(ctx, x.servers, x.process, "Chain", func(ctx context.Context) ([]store.Listed, error) { return x.Store.Chain(ctx, id) })
}

// DeadLetters implements store.Store.
func (x *database) DeadLetters(ctx context.Context, q store.DeadLetterQuery) ([]store.StoredDeadLetter, error) {
	return ask(ctx, x.servers, x.process, "DeadLetters", func(ctx context.Context) ([]store.StoredDeadLetter, error) { return x.Store.DeadLetters(ctx, q) })
}

// SettleDeadLetter implements store.Store.
func (x *database) SettleDeadLetter(ctx context.Context, id int64, outcome, actor string) (bool, error) {
	return ask(ctx, x.servers, x.process, "SettleDeadLetter", func(ctx context.Context) (bool, error) { return x.Store.SettleDeadLetter(ctx, id, outcome, actor) })
}

// Observations implements store.Store.
func (x *database) Observations(ctx context.Context, q store.ObservationQuery) ([]store.Observation, error) {
	return ask(ctx, x.servers, x.process, "Observations", func(ctx context.Context) ([]store.Observation, error) { return x.Store.Observations(ctx, q) })
}

// DiscardDeadLetters implements store.Store.
func (x *database) DiscardDeadLetters(ctx context.Context, d store.DeadLetterDiscard, outcome string) (store.DeadLettersDiscarded, error) {
	return ask(ctx, x.servers, x.process, "DiscardDeadLetters", func(ctx context.Context) (store.DeadLettersDiscarded, error) {
		return x.Store.DiscardDeadLetters(ctx, d, outcome)
	})
}

// SummarizeDeadLetters implements store.Store.
func (x *database) SummarizeDeadLetters(ctx context.Context, q store.DeadLetterSummaryQuery) (store.DeadLetterSummary, error) {
	return ask(ctx, x.servers, x.process, "SummarizeDeadLetters", func(ctx context.Context) (store.DeadLetterSummary, error) {
		return x.Store.SummarizeDeadLetters(ctx, q)
	})
}

// Cancel implements store.Store.
func (x *database) Cancel(ctx context.Context, ids []execution.ID, actor string) ([]store.Cancellation, error) {
	return ask(ctx, x.servers, x.process, "Cancel", func(ctx context.Context) ([]store.Cancellation, error) { return x.Store.Cancel(ctx, ids, actor) })
}

// FindWorkers implements store.Store.
func (x *database) FindWorkers(ctx context.Context, q store.WorkerQuery) ([]store.WorkerRow, error) {
	return ask(ctx, x.servers, x.process, "FindWorkers", func(ctx context.Context) ([]store.WorkerRow, error) { return x.Store.FindWorkers(ctx, q) })
}

// SetCordon implements store.Store.
func (x *database) SetCordon(ctx context.Context, c store.Cordon) (bool, error) {
	return ask(ctx, x.servers, x.process, "SetCordon", func(ctx context.Context) (bool, error) { return x.Store.SetCordon(ctx, c) })
}

// Workers implements store.Store.
func (x *database) Workers(ctx context.Context, into []store.WorkerRow) ([]store.WorkerRow, error) {
	return ask(ctx, x.servers, x.process, "Workers", func(ctx context.Context) ([]store.WorkerRow, error) { return x.Store.Workers(ctx, into) })
}

// MarkQueuesDeleted implements store.Store.
func (x *database) MarkQueuesDeleted(ctx context.Context, ws []store.WorkerKey) ([]bool, error) {
	return ask(ctx, x.servers, x.process, "MarkQueuesDeleted", func(ctx context.Context) ([]bool, error) { return x.Store.MarkQueuesDeleted(ctx, ws) })
}

// ClaimForScheduling implements store.Store.
func (x *database) ClaimForScheduling(ctx context.Context, c store.SchedulingClaim) ([]execution.Execution, error) {
	return ask(ctx, x.servers, x.process, "ClaimForScheduling", func(ctx context.Context) ([]execution.Execution, error) { return x.Store.ClaimForScheduling(ctx, c) })
}

// DispatchDue implements store.Store.
func (x *database) DispatchDue(ctx context.Context, d store.DueDispatch) (store.DueDispatched, error) {
	return ask(ctx, x.servers, x.process, "DispatchDue", func(ctx context.Context) (store.DueDispatched, error) { return x.Store.DispatchDue(ctx, d) })
}

// Dispatch implements store.Store.
func (x *database) Dispatch(ctx context.Context, executor string, ds []store.Dispatch) ([]store.DispatchResult, error) {
	return ask(ctx, x.servers, x.process, "Dispatch", func(ctx context.Context) ([]store.DispatchResult, error) { return x.Store.Dispatch(ctx, executor, ds) })
}

// MarkPublished implements store.Store.
func (x *database) MarkPublished(ctx context.Context, keys []execution.Key) ([]execution.Key, error) {
	return ask(ctx, x.servers, x.process, "MarkPublished", func(ctx context.Context) ([]execution.Key, error) { return x.Store.MarkPublished(ctx, keys) })
}

// Park implements store.Store.
func (x *database) Park(ctx context.Context, executor string, ps []store.Park) ([]store.Outcome, error) {
	return ask(ctx, x.servers, x.process, "Park", func(ctx context.Context) ([]store.Outcome, error) { return x.Store.Park(ctx, executor, ps) })
}

// Find implements store.Store.
func (x *database) Find(ctx context.Context, f store.Finding) ([]execution.Execution, error) {
	return ask(ctx, x.servers, x.process, "Find", func(ctx context.Context) ([]execution.Execution, error) { return x.Store.Find(ctx, f) })
}

// Reclaim implements store.Store.
func (x *database) Reclaim(ctx context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	return ask(ctx, x.servers, x.process, "Reclaim", func(ctx context.Context) ([]store.Outcome, error) { return x.Store.Reclaim(ctx, rs) })
}

// ObserveReclaims implements store.Store.
func (x *database) ObserveReclaims(ctx context.Context, rs []store.Reclaim) ([]store.Observed, error) {
	return ask(ctx, x.servers, x.process, "ObserveReclaims", func(ctx context.Context) ([]store.Observed, error) { return x.Store.ObserveReclaims(ctx, rs) })
}

// ObserveWorkers implements store.Store.
func (x *database) ObserveWorkers(ctx context.Context, ws []store.ProbedWorker) ([]bool, error) {
	return ask(ctx, x.servers, x.process, "ObserveWorkers", func(ctx context.Context) ([]bool, error) { return x.Store.ObserveWorkers(ctx, ws) })
}

// PurgeObservations implements store.Store.
func (x *database) PurgeObservations(ctx context.Context, age time.Duration, limit int) (int, error) {
	return ask(ctx, x.servers, x.process, "PurgeObservations", func(ctx context.Context) (int, error) { return x.Store.PurgeObservations(ctx, age, limit) })
}

// Reap implements store.Store.
func (x *database) Reap(ctx context.Context, rs []store.Reap) ([]bool, error) {
	return ask(ctx, x.servers, x.process, "Reap", func(ctx context.Context) ([]bool, error) { return x.Store.Reap(ctx, rs) })
}

// Orchestrate implements store.Store.
func (x *database) Orchestrate(ctx context.Context, os []store.Orchestration) ([]store.Orchestrated, error) {
	return ask(ctx, x.servers, x.process, "Orchestrate", func(ctx context.Context) ([]store.Orchestrated, error) { return x.Store.Orchestrate(ctx, os) })
}

// SettleChildren implements store.Store.
func (x *database) SettleChildren(ctx context.Context, chains []execution.ID, most int) ([]store.Settled, error) {
	return ask(ctx, x.servers, x.process, "SettleChildren", func(ctx context.Context) ([]store.Settled, error) { return x.Store.SettleChildren(ctx, chains, most) })
}

// StoreDeadLetters implements store.Store.
func (x *database) StoreDeadLetters(ctx context.Context, ds ...store.DeadLetter) error {
	_, err := ask(ctx, x.servers, x.process, "StoreDeadLetters", func(ctx context.Context) (struct{}, error) { return struct{}{}, x.Store.StoreDeadLetters(ctx, ds...) })
	return err
}

// Purge implements store.Store.
func (x *database) Purge(ctx context.Context, p store.Purge) (store.Purged, error) {
	return ask(ctx, x.servers, x.process, "Purge", func(ctx context.Context) (store.Purged, error) { return x.Store.Purge(ctx, p) })
}

// PurgeDeadLetters implements store.Store.
func (x *database) PurgeDeadLetters(ctx context.Context, age time.Duration, limit int) (int, error) {
	return ask(ctx, x.servers, x.process, "PurgeDeadLetters", func(ctx context.Context) (int, error) { return x.Store.PurgeDeadLetters(ctx, age, limit) })
}

// Clock implements store.Store.
func (x *database) Clock(ctx context.Context) (time.Time, error) {
	return ask(ctx, x.servers, x.process, "Clock", func(ctx context.Context) (time.Time, error) { return x.Store.Clock(ctx) })
}

// Survey implements store.Store.
func (x *database) Survey(ctx context.Context) (store.Survey, error) {
	return ask(ctx, x.servers, x.process, "Survey", func(ctx context.Context) (store.Survey, error) { return x.Store.Survey(ctx) })
}

// FreeSlots implements store.Store.
func (x *database) FreeSlots(ctx context.Context, limit int) ([]execution.ID, error) {
	return ask(ctx, x.servers, x.process, "FreeSlots", func(ctx context.Context) ([]execution.ID, error) { return x.Store.FreeSlots(ctx, limit) })
}

// ForgetKeys implements store.Store.
func (x *database) ForgetKeys(ctx context.Context, age time.Duration, limit int) (int, error) {
	return ask(ctx, x.servers, x.process, "ForgetKeys", func(ctx context.Context) (int, error) { return x.Store.ForgetKeys(ctx, age, limit) })
}

// Newest implements store.Store.
func (x *database) Newest(ctx context.Context, name string) (execution.Incarnation, error) {
	return ask(ctx, x.servers, x.process, "Newest", func(ctx context.Context) (execution.Incarnation, error) { return x.Store.Newest(ctx, name) })
}

// Register implements store.Store.
func (x *database) Register(ctx context.Context, r store.Registration) (store.Registered, error) {
	return ask(ctx, x.servers, x.process, "Register", func(ctx context.Context) (store.Registered, error) { return x.Store.Register(ctx, r) })
}

// SetLifecycle implements store.Store.
func (x *database) SetLifecycle(ctx context.Context, w store.WorkerKey, to execution.Lifecycle) error {
	_, err := ask(ctx, x.servers, x.process, "SetLifecycle", func(ctx context.Context) (struct{}, error) { return struct{}{}, x.Store.SetLifecycle(ctx, w, to) })
	return err
}

// Heartbeat implements store.Store.
func (x *database) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	return ask(ctx, x.servers, x.process, "Heartbeat", func(ctx context.Context) (store.BeatReply, error) { return x.Store.Heartbeat(ctx, b) })
}

// Claim implements store.Store.
func (x *database) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	return ask(ctx, x.servers, x.process, "Claim", func(ctx context.Context) ([]store.ClaimResult, error) { return x.Store.Claim(ctx, w, cs) })
}

// Finish implements store.Store.
func (x *database) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	return ask(ctx, x.servers, x.process, "Finish", func(ctx context.Context) ([]store.Outcome, error) { return x.Store.Finish(ctx, w, fs) })
}

// Release implements store.Store.
func (x *database) Release(ctx context.Context, w store.WorkerKey) ([]execution.Key, error) {
	return ask(ctx, x.servers, x.process, "Release", func(ctx context.Context) ([]execution.Key, error) { return x.Store.Release(ctx, w) })
}

// KeepRefusedResult implements store.Store.
func (x *database) KeepRefusedResult(ctx context.Context, w store.WorkerKey, f store.Finish) error {
	_, err := ask(ctx, x.servers, x.process, "KeepRefusedResult", func(ctx context.Context) (struct{}, error) { return struct{}{}, x.Store.KeepRefusedResult(ctx, w, f) })
	return err
}

// Dispatched implements store.Store.
func (x *database) Dispatched(ctx context.Context, w store.WorkerKey, limit int) ([]execution.Execution, error) {
	return ask(ctx, x.servers, x.process, "Dispatched", func(ctx context.Context) ([]execution.Execution, error) { return x.Store.Dispatched(ctx, w, limit) })
}
