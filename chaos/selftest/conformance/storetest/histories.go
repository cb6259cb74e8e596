package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// State is a store that can be copied in its present state: the model that judges concurrent histories. Its
// clock must show the subject's time and stand still, as the subject's must.
type State struct {
	Store store.Store
	Clone func() State
}

// Shape is the size of concurrent histories.
type Shape struct {
	// Cells run at the same time on one store. Each has its own two executions and worker, so that
	// each has a separate history: no call of one affects another.
	Cells int
	// Clients is the number of concurrent clients of a cell, and Calls the number of calls of each.
	Clients, Calls int
	// Only are the names of the calls to make, nil for all.
	Only []string
}

// Linearizable makes simultaneous calls from many clients, drawn by the seed. It judges whether each answer
// about one row could have been given at one moment between the call and its return: whether the model gives
// the same answers in some order of the calls that keeps calls that did not overlap in their order. Each row
// of a call has its own moment, because a failed statement is repeated row by row. It returns the history of
// the first cell that can't be explained, or "", and the number of calls. Both stores must be empty.
func Linearizable(t *testing.T, subject store.Store, model State, seed uint64, shape Shape) (unexplained string, calls int) {
	t.Helper()
	cells := make([]*cell, shape.Cells)
	for i := range cells {
		cells[i] = newCell(i)
		for _, s := range []store.Store{subject, model.Store} {
			if err := cells[i].prepareStore(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	begin := time.Now()
	var under sync.WaitGroup
	for i, c := range cells {
		for client := range shape.Clients {
			under.Go(func() {
				r := rand.New(rand.NewPCG(seed, uint64(i*shape.Clients+client))) //nolint:gosec // not negative
				for range shape.Calls {
					call := c.drawCall(r, shape.Only)
					o := porcupine.Operation{ClientId: client, Call: time.Since(begin).Nanoseconds()}
					answers := call.do(subject, 0, call.rows)
					o.Return = time.Since(begin).Nanoseconds()
					for n, answer := range answers {
						o.Input, o.Output = row{call, n}, answer
						c.recordOperation(o)
					}
				}
			})
		}
	}
	under.Wait()
	for _, c := range cells {
		calls += len(c.history)
		switch porcupine.CheckOperationsTimeout(c.porcupineModel(model), c.history, judgeFor) {
		case porcupine.Illegal:
			return c.unexplainedHistory(model), calls
		case porcupine.Unknown:
			t.Errorf("a history of %d calls could not be judged within %v", len(c.history), judgeFor)
		}
	}
	return "", calls
}

// judgeFor bounds the search for an explanation.
const judgeFor = 20 * time.Second

// call is one call of a client.
type call struct {
	name string
	// rows is the number of its rows; 1 for a call that is one step whatever it touches.
	rows int
	// do makes the call for some of its rows, and shows the answer about each. An answer that
	// nothing was done or promised is possible at any moment.
	do func(s store.Store, from, to int) []string
	// reply reports whether the call has two steps: its effect counts as the first row and its reply as the
	// second, each at its own moment.
	reply bool
}

// singleStepCall is a call that is one step.
func singleStepCall(name string, do func(s store.Store) string) call {
	return call{name: name, rows: 1, do: func(s store.Store, _, _ int) []string { return []string{do(s)} }}
}

// withReply is a call whose reply is only information, which may be outdated when it is read.
func withReply(name string, do func(s store.Store) (done, seen string)) call {
	return call{name: name, rows: 2, reply: true, do: func(s store.Store, from, to int) []string {
		done, seen := do(s)
		return []string{done, seen}[from:to]
	}}
}

// perRow is a call that is a separate step for each of its rows. An error is the answer about every
// row.
func perRow[R any](c *cell, name string, requests []R, do func(s store.Store, rs []R) ([]string, error)) call {
	return call{name: name, rows: len(requests), do: func(s store.Store, from, to int) []string {
		answers, err := do(s, requests[from:to])
		all := make([]string, to-from)
		for i := range all {
			if all[i] = c.answerText(err); err == nil && len(answers) > 0 {
				if all[i] = nothing; answers[i] != nothing {
					all[i] = c.answerText(nil, answers[i])
				}
			}
		}
		return all
	}}
}

// row is the part of a call that concerns one of its rows.
type row struct {
	call
	n int
}

// nothing is the answer of a call that had no effect and promises none: the store was not available, or a
// claim for scheduling or a mark skipped a row that another call had locked.
const nothing = "nothing"

// cell is two executions and their worker.
type cell struct {
	name   string
	ids    []execution.ID
	worker store.WorkerKey
	ctx    context.Context //nolint:containedctx // the context of a test

	mu      sync.Mutex
	history []porcupine.Operation
	seen    map[execution.ID]execution.Execution
	process uint64
	beat    uint64
}

func newCell(n int) *cell {
	return &cell{name: fmt.Sprint("cell", n), ctx: context.Background(), seen: make(map[execution.ID]execution.Execution), beat: 1}
}

// keyedAction returns the action of which clients create one execution, under a key of the same name.
func (c *cell) keyedAction() string { return c.name + "-keyed" }

func (c *cell) runtimeName(n int) string { return fmt.Sprint(c.name, "-", n) }

// prepareStore makes the cell in a store: one execution is dispatched and one requested.
func (c *cell) prepareStore(s store.Store) error {
	r, err := s.Register(c.ctx, store.Registration{Process: 1, Attempt: 1, Name: c.name, Runtimes: []string{"any"}, Capacity: 9, Lease: Lease})
	if err != nil {
		return err
	}
	c.worker, c.ids = r.WorkerKey, nil
	if _, err := s.Heartbeat(c.ctx, store.Beat{WorkerKey: c.worker, Number: 1, Lease: Lease, ConsumerAlive: true}); err != nil {
		return err
	}
	if err := s.SetLifecycle(c.ctx, c.worker, execution.Active); err != nil {
		return err
	}
	one := execution.Action{Ref: c.keyedAction(), Runtime: c.keyedAction(), Entrypoint: "e"}
	if err := s.PutActions(c.ctx, []execution.Action{one}); err != nil {
		return err
	}
	for n := range 2 {
		action := execution.Action{Ref: c.runtimeName(n), Runtime: c.runtimeName(n), Entrypoint: "e", Timeout: RunTimeout}
		if err := s.PutActions(c.ctx, []execution.Action{action}); err != nil {
			return err
		}
		created, err := s.Create(c.ctx, []store.NewExecution{{ActionRef: action.Ref}})
		if err != nil {
			return err
		}
		c.ids = append(c.ids, created[0].ID)
	}
	rows, err := s.ClaimForScheduling(c.ctx, store.SchedulingClaim{Executor: "e", Expiry: time.Minute, Demands: []store.Demand{{Runtime: c.runtimeName(0), Limit: 1}}})
	if err != nil {
		return err
	}
	_, err = s.Dispatch(c.ctx, "e", []store.Dispatch{{Key: rows[0].Key(), Worker: c.worker, Timeout: DispatchTimeout}})
	c.seen[c.ids[0]] = execution.Execution{ID: c.ids[0], Epoch: 1}
	c.seen[c.ids[1]] = execution.Execution{ID: c.ids[1]}
	return err
}

func (c *cell) recordOperation(o porcupine.Operation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = append(c.history, o)
}

// rememberRows stores the latest state of an execution in an answer, for the next calls.
func (c *cell) rememberRows(rows ...execution.Execution) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range rows {
		if e.ID != 0 && e.Epoch >= c.seen[e.ID].Epoch {
			c.seen[e.ID] = e
		}
	}
}

// chooseKeys chooses one or both executions, mostly at the epoch seen last.
func (c *cell) chooseKeys(r *rand.Rand) []execution.Key {
	c.mu.Lock()
	defer c.mu.Unlock()
	var keys []execution.Key
	for _, id := range c.ids {
		key := execution.Key{ID: id, Epoch: c.seen[id].Epoch}
		if r.IntN(8) == 0 {
			key.Epoch++
		}
		keys = append(keys, key)
	}
	if r.IntN(3) > 0 {
		n := r.IntN(len(keys))
		keys = keys[n : n+1]
	}
	return keys
}

// nextNumber returns the next number.
func (c *cell) nextNumber(n *uint64) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n++
	return *n
}

// answerText shows an answer: rows in full, errors by their kind.
func (c *cell) answerText(err error, rows ...string) string {
	if errors.Is(err, store.ErrUnavailable) {
		return nothing
	}
	return fmt.Sprint(errorKind(err), " ", strings.Join(rows, "; "))
}

func (c *cell) outcomeText(o store.Outcome) string {
	c.rememberRows(o.Row)
	return fmt.Sprintf("applied %v from %v %s", o.Applied, o.From, c.rowText(&o.Row))
}

// rowText shows a row without its constant values.
func (c *cell) rowText(e *execution.Execution) string {
	return fmt.Sprintf("%d@%d %v worker %d/%d dispatches %d avoid %d %v beat %d published %v ended %v handled %v cancel requested %v",
		e.ID, e.Epoch, e.Status, e.Worker, e.Incarnation, e.Dispatches, e.Avoid, e.FailureReason, e.ClaimBeat,
		!e.PublishedAt.IsZero(), !e.Ended.IsZero(), !e.OrchestratedAt.IsZero(), !e.CancelRequestedAt.IsZero())
}

// porcupineModel returns the model in the form that porcupine needs.
func (c *cell) porcupineModel(model State) porcupine.Model {
	type state struct {
		State
		shown string
	}
	show := func(s State) state { return state{s, c.stateText(s.Store)} }
	open := porcupine.NondeterministicModel{
		Init: func() []any { return []any{show(model.Clone())} },
		Step: func(before, input, output any) []any {
			r, answer := input.(row), output.(string)
			if answer == nothing {
				return []any{before}
			}
			next := before.(state).Clone()
			switch same := r.do(next.Store, r.n, r.n+1)[0] == answer; {
			case r.hasOpenOutcome(answer):
				return []any{before, show(next)}
			case !same:
				return nil
			case r.reply && r.n > 0:
				return []any{before}
			default:
				return []any{show(next)}
			}
		},
		Equal: func(a, b any) bool { return a.(state).shown == b.(state).shown },
	}
	return open.ToModel()
}

// hasOpenOutcome reports whether an answer leaves open that this row's step was made: its outcome is unknown,
// or an error ended the call after some of its rows.
func (r row) hasOpenOutcome(answer string) bool {
	return answer != nothing && (strings.HasPrefix(answer, errorKind(store.ErrUnknownOutcome)) ||
		r.rows > 1 && !r.reply && !strings.HasPrefix(answer, errorKind(nil)))
}

// stateText shows all state on which later answers can depend. Every call registers as its own process, so it
// does not matter which process registered last.
func (c *cell) stateText(s store.Store) string {
	rows, err := s.Executions(c.ctx, c.ids)
	created, _ := s.List(c.ctx, store.ExecutionQuery{ActionRef: c.keyedAction(), Limit: 9})
	all := []string{errorKind(err), c.workerText(s), fmt.Sprint(len(created), " under the key")}
	for i := range rows {
		all = append(all, c.rowText(&rows[i]), fmt.Sprint(rows[i].SchedulingBy, rows[i].SchedulingExpiresAt, rows[i].DispatchDeadline))
	}
	for _, id := range c.ids {
		// A cancellation depends on whether a row was retried, and on the state of the retry.
		chain, err := s.Chain(c.ctx, id)
		all = append(all, errorKind(err))
		for i := 1; i < len(chain); i++ {
			all = append(all, fmt.Sprint("retried as ", chain[i].RetryCount, " ", chain[i].Status, " ", !chain[i].OrchestratedAt.IsZero()))
		}
	}
	return strings.Join(all, "\n")
}

// workerText shows the cell's worker. The number of a newer incarnation is open.
func (c *cell) workerText(s store.Store) string {
	rows, err := s.Workers(c.ctx, nil)
	for i := range rows {
		if w := &rows[i]; w.Name == c.name {
			return c.answerText(err, fmt.Sprintf("the first %v, %v beat %d consumes %v over %v load %d cordoned %v",
				w.Incarnation == c.worker.Incarnation, w.Lifecycle, w.Beat, w.ConsumerAlive, w.LeaseOverFor, w.Load, w.Cordoned))
		}
	}
	return c.answerText(err)
}

// unexplainedHistory shows the history, the longest possible order of some of its calls, and the model's
// answer to each of the others after those.
func (c *cell) unexplainedHistory(model State) string {
	spec := c.porcupineModel(model)
	_, info := porcupine.CheckOperationsVerbose(spec, c.history, judgeFor)
	var longest []int
	for _, partial := range info.PartialLinearizations()[0] {
		if len(partial) > len(longest) {
			longest = partial
		}
	}
	place, last := make(map[int]int), model.Clone()
	for n, at := range longest {
		place[at] = n + 1
		if r := c.history[at].Input.(row); c.history[at].Output != nothing {
			r.do(last.Store, r.n, r.n+1)
		}
	}
	order := make([]int, len(c.history))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(c.history[a].Call - c.history[b].Call) })
	var b strings.Builder
	fmt.Fprintf(&b, "the history of %s, executions %v, has no explanation. The longest order of its calls ends with\n%s", c.name, c.ids, c.stateText(last.Store))
	for _, at := range order {
		o := c.history[at]
		fmt.Fprintf(&b, "\n%8d to %8d µs, client %d, %3d: %s: %s", o.Call/1000, o.Return/1000, o.ClientId, place[at], o.Input.(row).name, o.Output)
		if place[at] == 0 {
			r := o.Input.(row)
			fmt.Fprintf(&b, "\n    the model: %s", r.do(last.Clone().Store, r.n, r.n+1)[0])
		}
	}
	return b.String()
}

// reclaimOf returns a reclaim for a cause that needs no moment.
func reclaimOf(key execution.Key, cause store.ReclaimCause, fail bool) store.Reclaim {
	r := store.Reclaim{
		Key: key, Cause: cause, By: execution.Reconciler, Reason: execution.WorkerLost, To: execution.Abandoned,
		Policy: config.Reschedule, MaxDispatches: 2, Counts: true,
	}
	if fail {
		r.Policy = config.Fail
	}
	return r
}
