package sim

import (
	"context"

	"handoff/chaos/history"
	"handoff/chaos/hook"
	"handoff/chaos/run"
	"handoff/chaos/run/product"
	"handoff/chaos/scenario"
	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/store/metered"
	"handoff/core/submission"
	"handoff/sim/kernel"
	"handoff/sim/simhost"
)

// startClient starts the process that submits the workload.
func (w *world) startClient() {
	p := w.k.NewProcess(client)
	h := simhost.New(w.k, p)
	ports := w.plantMutant(hook.Process{Name: client, Client: true, Config: w.config}, w.db.Client(p), hook.Ports{
		Host: h, Broker: w.witness.wrapBroker(client, w.broker.Client(p, w.config.MessageQueue.RabbitMQ.Heartbeat)),
	})
	db := metered.Client(ports.Store, ports.Recorder)
	c := broker.NewClient(h, ports.Broker,
		broker.ExecutorTopology(w.config.MessageQueue.RabbitMQ), w.config.MessageQueue.RabbitMQ, w.log)
	notifier := broker.NewNotifier(h, c, client, w.log)
	delays := w.k.Stream(client)
	w.workload = run.NewWorkload(run.WorkloadOptions{
		Scenario: w.scenario, Clock: clock{w.k}, Host: h, Batch: w.config.Executor.BatchSize,
		Client: &product.Client{
			API:      &submission.Submitter{Host: h, Store: db, Notifier: notifier, Timeout: w.config.Executor.StatementTimeout},
			WorkerID: w.db.WorkerID,
		},
		Draws: func(int) scenario.Drawer { return delays },
		Known: w.recordKnownKey,
	})
	p.OnEnd(func(kernel.EndReason) { w.workload.Abandon() })
	p.Go("broker client", func() { c.Run(context.Background()) })
	p.Go("notifier", func() { notifier.Run(context.Background()) })

	actions := make([]execution.Action, len(w.scenario.Actions))
	for i, a := range w.scenario.Actions {
		actions[i] = a.Action
	}
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
		w.workload.Start(context.Background())
	})
}

// recordKnownKey records that a request was answered with the execution of an earlier request with the same
// key.
func (w *world) recordKnownKey(r *run.Request, id execution.ID) {
	row, there := w.db.Execution(id)
	if !there {
		return
	}
	w.emitEvent(history.Event{
		Kind: history.KeyKnown, Process: client, Execution: id, Chain: row.Chain(), Key: r.Key,
		Due: w.db.Clock().Wall().Sub(row.Created),
	})
}
