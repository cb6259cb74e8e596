package live

import (
	"log/slog"
	"slices"
	"strconv"
	"sync"

	"handoff/chaos/history"
	"handoff/chaos/live/evidence"
	"handoff/chaos/run"
	"handoff/chaos/run/product"
	"handoff/chaos/scenario"
	"handoff/core/broker"
	"handoff/core/broker/rabbitmq"
	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/host/daemon"
	"handoff/core/submission"
)

// client is this process's name in events. It submits the workload.
const client = "client"

// startWorkload starts the workload in this process, which no fault affects.
func (w *world) startWorkload() error {
	h := countedHost{daemon.New(daemon.Options{}), &w.clients}
	c := w.config.MessageQueue.RabbitMQ
	log := slog.New(slog.DiscardHandler)
	url, err := rewriteAddress(w.mq.URL, w.client.Address, "")
	if err != nil {
		return err
	}
	mq := broker.NewClient(h, rabbitmq.New(rabbitmq.Options{URL: url, Heartbeat: c.Heartbeat, Name: client}), broker.ExecutorTopology(c), c, log)
	notifier := broker.NewNotifier(h, mq, client, log)
	w.workload = run.NewWorkload(run.WorkloadOptions{
		Scenario: w.scenario, Clock: w.scenarioClock(), Host: h, Batch: w.config.Executor.BatchSize,
		Client: &product.Client{
			API:      &submission.Submitter{Host: h, Store: w.store, Notifier: notifier, Timeout: w.config.Executor.StatementTimeout},
			WorkerID: w.database.WorkerID,
		},
		Draws: func(cancel int) scenario.Drawer {
			return newStream(w.options.Seed, client+"/cancel/"+strconv.Itoa(cancel))
		},
		// The execution's age is added later; see fillKnownAges.
		Known: func(r *run.Request, id execution.ID) {
			w.recordEvent(history.Event{Kind: history.KeyKnown, Process: client, Execution: id, Key: r.Key})
		},
		Refused: func(why string) { w.failRun("the system refused a part of the workload: " + why) },
	})
	h.Go("broker client", func() { mq.Run(w.ctx) })
	h.Go("notifier", func() { notifier.Run(w.ctx) })
	w.workload.Start(w.ctx)
	return nil
}

// countedHost is a host that counts its running tasks in a wait group.
type countedHost struct {
	*daemon.Host
	tasks *sync.WaitGroup
}

// Go implements host.Host.
func (c countedHost) Go(name string, run func()) host.Task {
	c.tasks.Add(1)
	return c.Host.Go(name, func() {
		defer c.tasks.Done()
		run()
	})
}

// fillKnownAges sets the chain and the age in each KeyKnown event, from the execution's row. It runs at the
// end because the database may have been down when the answer came. The database's clock is this machine's.
func fillKnownAges(items []evidence.Item, rows []execution.Execution) []evidence.Item {
	byID := make(map[execution.ID]*execution.Execution, len(rows))
	for i := range rows {
		byID[rows[i].ID] = &rows[i]
	}
	items = slices.Clone(items)
	for i := range items {
		e := &items[i].Event
		if row := byID[e.Execution]; e.Kind == history.KeyKnown && row != nil {
			e.Chain, e.Due = row.Chain(), items[i].Wall.Sub(row.Created)
		}
	}
	return items
}
