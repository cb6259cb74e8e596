package sim

import (
	"context"
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/mutant"
	"handoff/chaos/scenario"
	"handoff/core/api"
	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
	"handoff/core/store/metered"
	"handoff/sim/kernel"
	"handoff/sim/simhost"
)

// user is the process that submits the workload and cancels, as users of the API would: with idempotency
// keys, trying again until it is told that a request was accepted.
type user struct {
	w      *world
	host   *simhost.Host
	api    *api.Submitter
	stream *kernel.Stream
	// accepted are the executions of each action by their number - 1, 0 for those that were not accepted yet.
	accepted map[string][]execution.ID
	// waiting wakes the steps that wait for an execution to be accepted.
	waiting []host.Signal
}

// startClient starts the user.
func (w *world) startClient() {
	p := w.k.NewProcess(client)
	h := simhost.New(w.k, p)
	ports := w.plant(mutant.Process{Name: client, Client: true, Config: w.config}, w.db.Client(p), mutant.Ports{Host: h})
	db := metered.Client(ports.Store, ports.Recorder)
	c := broker.NewClient(h, w.broker.Client(p, w.config.MessageQueue.RabbitMQ.Heartbeat),
		broker.ExecutorTopology(w.config.MessageQueue.RabbitMQ), w.config.MessageQueue.RabbitMQ, w.log)
	notifier := broker.NewNotifier(h, c, client, w.log)
	u := &user{
		w: w, host: h, stream: w.k.Stream(client), accepted: make(map[string][]execution.ID),
		api: &api.Submitter{Host: h, Store: db, Notifier: notifier, Timeout: w.config.Executor.StatementTimeout},
	}
	// What a client that dies had not submitted was never accepted.
	p.OnEnd(func(kernel.EndReason) { w.submitting = 0 })
	p.Go("broker client", func() { c.Run(context.Background()) })
	p.Go("notifier", func() { notifier.Run(context.Background()) })

	actions := make([]execution.Action, len(w.scenario.Actions))
	for i, a := range w.scenario.Actions {
		actions[i] = a.Action
		u.accepted[a.Ref] = make([]execution.ID, w.scenario.SubmissionsOf(a.Ref))
	}
	w.submitting = len(w.scenario.Workload) + len(w.scenario.Cancels)
	p.Go("submit", func() {
		backoff := broker.NewBackoff(h, w.config.MessageQueue.RabbitMQ.ReconnectMin, w.config.MessageQueue.RabbitMQ.ReconnectMax)
		for {
			ctx, cancel := h.WithTimeout(context.Background(), w.config.Executor.StatementTimeout)
			err := db.PutActions(ctx, actions)
			cancel()
			if err == nil {
				break
			}
			_ = backoff.Wait(context.Background())
		}
		first := make(map[string]int)
		for i, l := range w.scenario.Workload {
			number := first[l.Action]
			first[l.Action] += l.Count
			h.Go("load", func() { u.submit(i, number, l) })
		}
		for _, c := range w.scenario.Cancels {
			h.Go("cancel", func() { u.cancel(c) })
		}
	})
}

// submit submits one load, whose executions are numbered from first on: items that fall on one moment go as
// one request.
func (u *user) submit(index, first int, l scenario.Load) {
	w := u.w
	for n := 0; n < l.Count; {
		_ = u.host.Sleep(context.Background(), due(l, n)-w.k.Now())
		for l.Pin != "" && w.db.WorkerID(l.Pin) == 0 {
			// The API refuses an unknown worker; this world would pin the execution to nobody.
			_ = u.host.Sleep(context.Background(), 100*time.Millisecond)
		}
		began := n
		var items []store.NewExecution
		for ; n < l.Count && due(l, n) <= w.k.Now() && len(items) < w.config.Executor.BatchSize; n++ {
			item := store.NewExecution{
				ActionRef: l.Action, IdempotencyKey: l.Key(index, n), Pinned: w.db.WorkerID(l.Pin), Limits: l.Limits,
			}
			if l.Parent != "" {
				item.Parent = u.await(l.Parent, l.ParentOf(n))
			}
			items = append(items, item)
		}
		if len(items) == 0 {
			continue
		}
		var copies []host.Task
		for range l.Copies - 1 {
			copies = append(copies, u.host.Go("copy", func() { _, _ = u.api.Submit(context.Background(), slices.Clone(items)) }))
		}
		created, _ := u.api.Submit(context.Background(), items)
		for i := range created {
			u.told(&items[i], &created[i])
			u.accepted[l.Action][first+began+i] = created[i].ID
		}
		for _, s := range u.waiting {
			s.Set()
		}
		for _, c := range copies {
			_ = c.Wait(context.Background())
		}
	}
	w.submitting--
}

// told records that a request was answered with the execution of an earlier request under the same key.
func (u *user) told(item *store.NewExecution, c *store.Created) {
	row, there := u.w.db.Execution(c.ID)
	if !c.Existed || !there {
		return
	}
	u.w.emit(history.Event{
		Kind: history.KeyKnown, Process: client, Execution: c.ID, Chain: row.Chain(), Key: item.IdempotencyKey,
		Due: u.w.db.Clock().Wall().Sub(row.Created),
	})
}

// await waits until the execution of that number, from 0, is accepted.
func (u *user) await(action string, number int) execution.ID {
	var accepted host.Signal
	for u.accepted[action][number] == 0 {
		if accepted == nil {
			accepted = u.host.NewSignal()
			u.waiting = append(u.waiting, accepted)
		}
		_, _ = accepted.Wait(context.Background(), host.Forever)
	}
	return u.accepted[action][number]
}

// cancel cancels what one step of the workload names, each in its own time.
func (u *user) cancel(c scenario.Cancel) {
	left := c.Count
	for i := range c.Count {
		after := scenario.Draw(u.stream, c.AfterMin, c.AfterMax, c.AfterLog)
		u.host.Go("cancel one", func() {
			if c.Timed {
				_ = u.host.Sleep(context.Background(), c.At-u.w.k.Now())
			}
			id := u.await(c.Action, c.Nth-1+i)
			_ = u.host.Sleep(context.Background(), after)
			// What has ended meanwhile is not cancelled; that is an answer too.
			_, _ = u.api.Cancel(context.Background(), id, "")
			if left--; left == 0 {
				u.w.submitting--
			}
		})
	}
}

// due is when the n-th item of a load is submitted.
func due(l scenario.Load, n int) time.Duration { return l.From + time.Duration(n)*l.Every }
