package live

import (
	"log/slog"
	"strconv"
	"time"

	"handoff/core/api"
	"handoff/core/broker"
	"handoff/core/broker/rabbitmq"
	"handoff/core/host/daemon"
	"handoff/core/store"
	"handoff/scenarios"
)

// client is the name of the process that submits the workload: this one.
const client = "client"

// submit starts to submit the workload, as users of the API would: with idempotency keys, trying again
// until it is told that the submission was accepted. It is what the API's handlers stand on, in a process
// that no fault strikes, so that an executor that is down keeps nobody from submitting.
func (w *world) submit() {
	h := daemon.New(daemon.Options{})
	c := w.config.MessageQueue.RabbitMQ
	log := slog.New(slog.DiscardHandler)
	url, err := through(w.mq.URL, w.client.Address, "")
	if err != nil {
		w.fail(err.Error())
		return
	}
	mq := broker.NewClient(h, rabbitmq.New(rabbitmq.Options{URL: url, Heartbeat: c.Heartbeat, Name: client}), broker.ExecutorTopology(c), c, log)
	notifier := broker.NewNotifier(h, mq, client, log)
	s := &api.Submitter{Host: h, Store: w.store, Notifier: notifier, Timeout: w.config.Executor.StatementTimeout}
	w.clients.Go(func() { mq.Run(w.ctx) })
	w.clients.Go(func() { notifier.Run(w.ctx) })
	w.submitting.Store(int64(len(w.scenario.Workload)))
	for i, l := range w.scenario.Workload {
		w.clients.Go(func() { w.load(h, s, i, l) })
	}
}

// load submits one load: items that fall on one moment go as one request.
func (w *world) load(h *daemon.Host, s *api.Submitter, index int, l scenarios.Load) {
	due := func(n int) time.Duration { return w.ready + l.From + time.Duration(n)*l.Every }
	for n := 0; n < l.Count; {
		if h.Sleep(w.ctx, due(n)-w.now()) != nil {
			return
		}
		var items []store.NewExecution
		for ; n < l.Count && due(n) <= w.now() && len(items) < w.config.Executor.BatchSize; n++ {
			items = append(items, store.NewExecution{ActionRef: l.Action, IdempotencyKey: strconv.Itoa(index) + "/" + strconv.Itoa(n)})
		}
		if len(items) == 0 {
			continue
		}
		if _, err := s.Submit(w.ctx, items); err != nil {
			if w.ctx.Err() == nil {
				w.fail("submitting was refused: " + err.Error())
			}
			return
		}
	}
	w.submitting.Add(-1)
}
