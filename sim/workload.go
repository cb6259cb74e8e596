package sim

import (
	"context"
	"strconv"
	"time"

	"handoff/core/api"
	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/scenarios"
	"handoff/sim/kernel"
	"handoff/sim/simhost"
)

// startClient starts the process that submits the workload, as users of the API would: with
// idempotency keys, trying again until it is told that the submission was accepted.
func (w *world) startClient() {
	p := w.k.NewProcess(client)
	h := simhost.New(w.k, p)
	db := w.db.Client(p)
	c := broker.NewClient(h, w.broker.Client(p, w.config.MessageQueue.RabbitMQ.Heartbeat),
		broker.ExecutorTopology(w.config.MessageQueue.RabbitMQ), w.config.MessageQueue.RabbitMQ, w.log)
	notifier := broker.NewNotifier(h, c, client, w.log)
	submitter := &api.Submitter{Host: h, Store: db, Notifier: notifier, Timeout: w.config.Executor.StatementTimeout}
	// What a client that dies had not submitted was never accepted.
	p.OnEnd(func(kernel.EndReason) { w.submitting = 0 })
	p.Go("broker client", func() { c.Run(context.Background()) })
	p.Go("notifier", func() { notifier.Run(context.Background()) })

	actions := make([]execution.Action, len(w.scenario.Actions))
	for i, a := range w.scenario.Actions {
		actions[i] = a.Action
	}
	w.submitting = len(w.scenario.Workload)
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
		for i, l := range w.scenario.Workload {
			h.Go("load", func() { w.submit(h, submitter, i, l) })
		}
	})
}

// submit submits one load: items that fall on one moment go as one request.
func (w *world) submit(h *simhost.Host, s *api.Submitter, index int, l scenarios.Load) {
	for n := 0; n < l.Count; {
		at := due(l, n)
		_ = h.Sleep(context.Background(), at-w.k.Now())
		var items []store.NewExecution
		for ; n < l.Count && due(l, n) <= w.k.Now() && len(items) < w.config.Executor.BatchSize; n++ {
			items = append(items, store.NewExecution{ActionRef: l.Action, IdempotencyKey: strconv.Itoa(index) + "/" + strconv.Itoa(n)})
		}
		if len(items) > 0 {
			_, _ = s.Submit(context.Background(), items)
		}
	}
	w.submitting--
}

// due is when the n-th item of a load is submitted.
func due(l scenarios.Load, n int) time.Duration { return l.From + time.Duration(n)*l.Every }
