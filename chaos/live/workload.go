package live

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"handoff/chaos/scenario"
	"handoff/core/api"
	"handoff/core/broker"
	"handoff/core/broker/rabbitmq"
	"handoff/core/execution"
	"handoff/core/host/daemon"
	"handoff/core/store"
)

// client is the name of the process that submits the workload: this one.
const client = "client"

// user submits the workload and cancels, as users of the API would: with idempotency keys, trying again until
// it is told that a request was accepted. It is what the API's handlers stand on, in a process that no fault
// strikes, so that an executor that is down keeps nobody from submitting.
type user struct {
	w      *world
	host   *daemon.Host
	api    *api.Submitter
	random *stream

	mu sync.Mutex
	// accepted are the executions of each action by their number - 1, 0 for those that were not accepted yet.
	accepted map[string][]execution.ID
	// changed is closed when something was accepted.
	changed chan struct{}
}

// submit starts the user.
func (w *world) submit() error {
	h := daemon.New(daemon.Options{})
	c := w.config.MessageQueue.RabbitMQ
	log := slog.New(slog.DiscardHandler)
	url, err := through(w.mq.URL, w.client.Address, "")
	if err != nil {
		return err
	}
	mq := broker.NewClient(h, rabbitmq.New(rabbitmq.Options{URL: url, Heartbeat: c.Heartbeat, Name: client}), broker.ExecutorTopology(c), c, log)
	notifier := broker.NewNotifier(h, mq, client, log)
	u := &user{
		w: w, host: h, random: newStream(w.options.Seed, client), accepted: make(map[string][]execution.ID), changed: make(chan struct{}),
		api: &api.Submitter{Host: h, Store: w.store, Notifier: notifier, Timeout: w.config.Executor.StatementTimeout},
	}
	for _, a := range w.scenario.Actions {
		u.accepted[a.Ref] = make([]execution.ID, w.scenario.SubmissionsOf(a.Ref))
	}
	w.clients.Go(func() { mq.Run(w.ctx) })
	w.clients.Go(func() { notifier.Run(w.ctx) })
	w.submitting.Store(int64(len(w.scenario.Workload) + len(w.scenario.Cancels)))
	first := make(map[string]int)
	for i, l := range w.scenario.Workload {
		number := first[l.Action]
		first[l.Action] += l.Count
		w.clients.Go(func() { u.load(i, number, l) })
	}
	for _, c := range w.scenario.Cancels {
		u.cancel(c)
	}
	return nil
}

// load submits one load, whose executions are numbered from first on: items that fall on one moment go as one
// request.
func (u *user) load(index, first int, l scenario.Load) {
	w := u.w
	due := func(n int) time.Duration { return w.ready + l.From + time.Duration(n)*l.Every }
	for n := 0; n < l.Count; {
		if u.host.Sleep(w.ctx, due(n)-w.now()) != nil {
			return
		}
		began := n
		var items []store.NewExecution
		for ; n < l.Count && due(n) <= w.now() && len(items) < w.config.Executor.BatchSize; n++ {
			item := store.NewExecution{
				ActionRef: l.Action, IdempotencyKey: l.Key(index, n), Pinned: w.database.WorkerID(l.Pin), Limits: l.Limits,
			}
			if l.Parent != "" {
				item.Parent = u.await(l.Parent, l.ParentOf(n))
			}
			items = append(items, item)
		}
		if len(items) == 0 {
			continue
		}
		var copies sync.WaitGroup
		for range l.Copies - 1 {
			copies.Go(func() { _, _ = u.api.Submit(w.ctx, slices.Clone(items)) })
		}
		created, err := u.api.Submit(w.ctx, items)
		copies.Wait()
		if err != nil {
			if w.ctx.Err() == nil {
				w.fail("submitting was refused: " + err.Error())
			}
			return
		}
		u.accept(l.Action, first+began, created)
	}
	w.submitting.Add(-1)
}

func (u *user) accept(action string, from int, created []store.Created) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := range created {
		u.accepted[action][from+i] = created[i].ID
	}
	close(u.changed)
	u.changed = make(chan struct{})
}

// await waits until the execution of that number, from 0, is accepted; 0 if the run is over before.
func (u *user) await(action string, number int) execution.ID {
	for {
		u.mu.Lock()
		id, changed := u.accepted[action][number], u.changed
		u.mu.Unlock()
		if id != 0 {
			return id
		}
		select {
		case <-changed:
		case <-u.w.ctx.Done():
			return 0
		}
	}
}

// cancel cancels what one step of the workload names, each in its own time.
func (u *user) cancel(c scenario.Cancel) {
	var left sync.WaitGroup
	for i := range c.Count {
		after := scenario.Draw(u.random, c.AfterMin, c.AfterMax, c.AfterLog)
		left.Add(1)
		u.w.clients.Go(func() {
			defer left.Done()
			if c.Timed {
				_ = u.host.Sleep(u.w.ctx, u.w.ready+c.At-u.w.now())
			}
			id := u.await(c.Action, c.Nth-1+i)
			if id == 0 || u.host.Sleep(u.w.ctx, after) != nil {
				return
			}
			// What has ended meanwhile is not cancelled; that is an answer too.
			_, _ = u.api.Cancel(u.w.ctx, id, "")
		})
	}
	u.w.clients.Go(func() {
		left.Wait()
		u.w.submitting.Add(-1)
	})
}
