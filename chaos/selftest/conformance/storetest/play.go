package storetest

import (
	"cmp"
	"slices"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// The values from which commands choose. Valid and common ones come first.

func pick[T any](n int, of ...T) T { return of[n%len(of)] }

func executorNamed(n int) string { return pick(n, "e1", "e1", "e2") }

func pickAge(n int) time.Duration {
	return pick(n, 0, 0, 5*time.Second, 10*time.Second, time.Microsecond, 1500*time.Nanosecond, -time.Second)
}

// pickDelay differs for every place of a batch, because the order is open among rows that one call makes due
// at the same moment.
func pickDelay(n, place int) time.Duration {
	d := pick(n, 0, 0, 3*time.Second, 1500*time.Nanosecond, 5*time.Second, -time.Second)
	if d > 0 {
		d += time.Duration(place) * time.Millisecond
	}
	return d
}

func pickDocument(n int) []byte {
	return pick(n, []byte(`{"n": 1}`), nil, []byte(`[1,  2]`), []byte(`null`), []byte(`"<ü>"`), []byte(`{`), []byte("\"\xff\""), []byte("1\x00"))
}

// validDocument is a document that every database accepts.
func validDocument(n int) []byte { return pickDocument(n % 5) }

// pickLimits returns the limits of a request. If wrong is set, some are negative.
func pickLimits(n int, wrong bool) execution.Limits {
	all := []execution.Limits{
		{},
		{},
		{Timeout: 1500 * time.Millisecond},
		{DispatchTimeout: 7 * time.Second},
		{OwnRetries: true},
		{Timeout: time.Hour, DispatchTimeout: time.Second, MaxRetries: 3, OwnRetries: true},
		{MaxRetries: 3},
	}
	if wrong {
		all = append(all, execution.Limits{Timeout: -time.Second}, execution.Limits{DispatchTimeout: -1}, execution.Limits{MaxRetries: -1, OwnRetries: true})
	}
	return pick(n, all...)
}

func pickResult(n int) execution.Result {
	return pick(n,
		execution.Result{Error: "it failed", FailedBy: execution.Reconciler},
		execution.Result{},
		execution.Result{Error: "it <failed>", Message: "line\nand \x01", FailedBy: execution.Worker, Output: []byte(`{"code": 3}`)},
		execution.Result{Output: []byte(`[ ]`)},
		execution.Result{Error: "x", Output: []byte(`{"a"`)},
	)
}

func pickReason(n int) execution.Reason {
	return pick(n, execution.WorkerLost, execution.Connection, execution.NoReason, execution.Validation, execution.RunTimeout)
}

// prepareStore creates the first objects of a sequence.
func (p *player) prepareStore() {
	err := p.Store.PutActions(p.ctx, Actions())
	if err != nil {
		p.recordLine("putting actions: %s", errorKind(err))
		return
	}
	p.createExecutions([]store.NewExecution{{ActionRef: "shell.echo"}, {ActionRef: "python.run"}, {ActionRef: "shell.echo"}})
	if rows, err := p.Store.Executions(p.ctx, p.ids); err == nil && len(rows) > 0 {
		p.begin = rows[0].Created
	}
	for _, name := range []string{"w0", "w1"} {
		p.activateWorker(p.registerWorker(registration{Registration: store.Registration{Process: 1, Name: name, Runtimes: []string{"shell", "python"}, Capacity: 4, Lease: Lease}}))
	}
}

// activateWorker makes a worker eligible for work.
func (p *player) activateWorker(w store.WorkerKey) {
	_, err := p.Store.Heartbeat(p.ctx, store.Beat{WorkerKey: w, Number: 1, Lease: Lease, ConsumerAlive: true})
	p.recordLine("heartbeat: %s, active: %s", errorKind(err), errorKind(p.Store.SetLifecycle(p.ctx, w, execution.Active)))
}

func (p *player) createExecutions(items []store.NewExecution) {
	created, err := p.Store.Create(p.ctx, items)
	p.recordLine("Create: %s", errorKind(err))
	for _, c := range created {
		p.numberRow(c.ID)
		p.recordLine("  %s existed %v skipped %v unknown action %v, parent %v", p.idText(c.ID), c.Existed, c.Skipped, c.UnknownAction, c.UnknownParent)
	}
}

// registration is a request to register. It names the latest incarnation as its predecessor unless it is
// stale.
type registration struct {
	store.Registration
	stale bool
}

func (p *player) registerWorker(g registration) store.WorkerKey {
	if g.Attempt == 0 {
		p.attempt++
		g.Attempt = p.attempt
	}
	newest, err := p.Store.Newest(p.ctx, g.Name)
	p.recordLine("Newest %s: %s, %s", g.Name, errorKind(err), p.incarnationText(newest))
	if !g.stale {
		g.After = newest
	}
	r, err := p.Store.Register(p.ctx, g.Registration)
	if err == nil {
		p.known = append(p.known, r.WorkerKey)
		p.names[r.ID] = g.Name
	}
	p.recordLine("Register %s: %s, %s of %s", g.Name, errorKind(err), p.incarnationText(r.Incarnation), p.workerText(r.ID))
	return r.WorkerKey
}

// chooseRow chooses a row, mostly among those in some statuses, and mostly at its present epoch.
func (p *player) chooseRow(it item, statuses ...execution.Status) (execution.Key, execution.Execution) {
	var fit []execution.Execution
	for i := range p.rows {
		if slices.Contains(statuses, p.rows[i].Status) {
			fit = append(fit, p.rows[i])
		}
	}
	if it.twist == 14 || len(fit) == 0 {
		fit = p.rows
	}
	if it.twist == 15 || len(fit) == 0 {
		return execution.Key{ID: 1 << 40, Epoch: 1}, execution.Execution{}
	}
	e := fit[it.row%len(fit)]
	key := e.Key()
	switch it.twist {
	case 12:
		key.Epoch--
	case 13:
		key.Epoch++
	}
	return key, e
}

// chooseIncarnation chooses an incarnation: mostly the wanted one or else a current one.
func (p *player) chooseIncarnation(n int, wanted store.WorkerKey) store.WorkerKey {
	switch {
	case n < 12 && wanted.Incarnation != 0:
		return wanted
	case n < 13 && len(p.workers) > 0:
		return p.workers[n%len(p.workers)].WorkerKey
	case n == 13 && len(p.known) > 0:
		w := p.known[0]
		w.ID = p.known[len(p.known)-1].ID // another worker's incarnation
		return w
	case n == 14:
		return store.WorkerKey{ID: 1 << 40, Incarnation: 1 << 40}
	}
	return p.known[n%len(p.known)]
}

// chooseFitWorker chooses a worker that may get work, if there is one.
func (p *player) chooseFitWorker(n int) store.WorkerKey {
	var fit []store.WorkerKey
	for i := range p.workers {
		if w := &p.workers[i]; w.Lifecycle == execution.Active && w.LeaseValid() && w.ConsumerAlive {
			fit = append(fit, w.WorkerKey)
		}
	}
	if len(fit) == 0 {
		return store.WorkerKey{}
	}
	return fit[n%len(fit)]
}

func (p *player) beatOf(w store.WorkerKey) uint64 {
	for i := range p.workers {
		if p.workers[i].WorkerKey == w {
			return p.workers[i].Beat
		}
	}
	return 1
}

func rowOwner(e *execution.Execution) store.WorkerKey {
	return store.WorkerKey{ID: e.Worker, Incarnation: e.Incarnation}
}

// prerequisite has the statuses that a command needs, and the command that leads to them.
type prerequisite struct {
	statuses []execution.Status
	by       op
}

// reachableCommand returns the command or, if no row has one of its statuses, the command that leads to one:
// by chance alone few sequences would reach a running execution.
func (p *player) reachableCommand(c command) command {
	to := map[op]prerequisite{
		opOrchestrate:        {[]execution.Status{execution.Completed, execution.Failed, execution.Timeout, execution.Abandoned, execution.Cancelled}, opFinish},
		opFinish:             {[]execution.Status{execution.Running, execution.Canceling}, opClaim},
		opReclaim:            {[]execution.Status{execution.Scheduled, execution.Running}, opClaim},
		opClaim:              {[]execution.Status{execution.Scheduled}, opDispatch},
		opDispatch:           {[]execution.Status{execution.Scheduling}, opClaimForScheduling},
		opPark:               {[]execution.Status{execution.Scheduling}, opClaimForScheduling},
		opClaimForScheduling: {[]execution.Status{execution.Requested}, opCreate},
		opDispatchDue:        {[]execution.Status{execution.Requested}, opCreate},
	}
	for c.a != 15 {
		l, leads := to[c.op]
		if !leads || slices.ContainsFunc(p.rows, func(e execution.Execution) bool {
			return slices.Contains(l.statuses, e.Status) && (c.op != opOrchestrate || e.OrchestratedAt.IsZero())
		}) {
			break
		}
		c.op = l.by
	}
	return c
}

// runCommand does one command.
func (p *player) runCommand(c command) {
	c = p.reachableCommand(c)
	switch c.op {
	case opCreate:
		p.createExecutions(p.newExecutions(c))
	case opAdvance:
		p.advanceClock(c)
	case opExecutions:
		p.readExecutions(c)
	case opPutActions:
		p.putActions(c)
	case opStoreDeadLetter:
		err := p.Store.StoreDeadLetters(p.ctx, store.DeadLetter{
			Key: execution.Key{ID: execution.ID(c.a % 2)}, Queue: "q", Reason: pick(c.b, "expired", "rejected", "\x00"), Body: []byte{0, 0xff}, Outcome: "kept",
		})
		p.recordLine("StoreDeadLetters: %s", errorKind(err))
	case opFind:
		f := store.Finding{Cause: store.ReclaimCause(c.a % (int(store.Unsettled) + 2)), Age: pickAge(c.b), Limit: pick(c.items[0].a, 5, 1, 2, 50, 0, -1)} //nolint:gosec // a cause
		if c.items[0].b%3 == 0 {
			key, _ := p.chooseRow(c.items[0])
			f.Skip = []execution.ID{key.ID}
		}
		rows, err := p.Store.Find(p.ctx, f)
		p.recordLine("Find %d of age %v, at most %d, without %s: %s [%s]", f.Cause, f.Age, f.Limit, p.sortedIDs(f.Skip), errorKind(err), p.keyTexts(rows))
	case opCancel, opChain, opList, opForgetKeys, opFreeSlots, opSetCordon, opClock:
		p.asUser(c)
	case opClaimForScheduling, opDispatch, opPark, opMarkPublished, opReclaim, opReap, opOrchestrate, opSettle, opDispatchDue:
		p.asExecutor(c)
	default:
		p.asWorker(c)
	}
}

// newExecutions keeps requests that are refused and those with keys out of one call: the order in
// which its rows are numbered would be open.
func (p *player) newExecutions(c command) []store.NewExecution {
	var items []store.NewExecution
	for _, it := range c.items {
		e := store.NewExecution{ActionRef: pick(it.row, "shell.echo", "python.run", "node.run"), Parameters: validDocument(it.a)}
		if len(c.items) == 1 {
			e.ActionRef = pick(it.row, "shell.echo", "python.run", "node.run", "no.such", "no\x00")
			e.Parameters = pickDocument(it.a)
		}
		if len(c.items) == 1 && it.twist < 6 {
			key, _ := p.chooseRow(item{row: it.worker, twist: it.twist})
			e.Parent = key.ID
			p.parents[p.chainOf(key.ID)] = true
		}
		e.Pinned, e.Actor = p.choosePin(it.worker), pick(it.a, "", "ci", "ops")
		e.Limits = pickLimits(it.a+it.b, len(c.items) == 1)
		if it.b >= 10 {
			e.IdempotencyKey = pick(it.b, "k1", "k2", "k3")
		}
		items = append(items, e)
	}
	return items
}

// choosePin returns mostly no worker, otherwise a registered one.
func (p *player) choosePin(n int) execution.WorkerID {
	if n < 9 || len(p.known) == 0 {
		return 0
	}
	return p.known[n%min(2, len(p.known))].ID
}

func (p *player) readExecutions(c command) {
	var ids []execution.ID
	for _, it := range c.items {
		key, _ := p.chooseRow(it)
		ids = append(ids, key.ID, key.ID)
	}
	rows, err := p.Store.Executions(p.ctx, ids)
	p.recordLine("Executions: %s [%s]", errorKind(err), p.keyTexts(rows))
}

func (p *player) putActions(c command) {
	var actions []execution.Action
	for _, it := range c.items {
		a := pick(it.row, Actions()...)
		a.MaxRetries = pick(it.a, 3, 0, -1)
		a.Timeout = pick(it.b, time.Second, 0, 1500*time.Millisecond, -time.Second)
		a.DispatchTimeout = pick(it.worker, 0, 7*time.Second, -time.Second)
		a.Concurrency = pick(it.twist, 1, 2, 0, 3, 0, 1, 2, -1)
		actions = append(actions, a)
	}
	p.recordLine("PutActions: %s", errorKind(p.Store.PutActions(p.ctx, actions)))
}

// changeMoments are the moments at which something changes by itself, on the clock of the sequence.
func (p *player) changeMoments() []time.Duration {
	var all []time.Duration
	add := func(t time.Time, after ...time.Duration) {
		for _, d := range after {
			if at := t.Add(d).Sub(p.begin); !t.IsZero() && at > p.passed {
				all = append(all, at)
			}
		}
	}
	for i := range p.rows {
		switch e := &p.rows[i]; e.Status {
		case execution.Requested:
			add(e.NotBefore, 0)
		case execution.Scheduling:
			add(e.SchedulingExpiresAt, 0)
			add(e.UnschedulableSince, 30*time.Second)
		case execution.Scheduled:
			add(e.DispatchDeadline, 0)
			add(e.ScheduledAt, 5*time.Second, 10*time.Second)
		case execution.Running:
			add(e.RunDeadline, 0, 5*time.Second, 10*time.Second)
		default:
			add(e.Ended, 5*time.Second, 10*time.Second)
		}
	}
	for i := range p.workers {
		add(p.begin.Add(p.passed-p.workers[i].LeaseOverFor), 0, 10*time.Second)
	}
	slices.SortFunc(all, cmp.Compare[time.Duration])
	return slices.Compact(all)
}

// advanceClock moves the clock to just before, onto or just after such a moment, or by a plain step. The
// clock of a server can also be set back.
func (p *player) advanceClock(c command) {
	d := pick(c.b, time.Microsecond, time.Second, 4*time.Second, 30*time.Second, -time.Second, -time.Microsecond)
	if all := p.changeMoments(); len(all) > 0 && c.a >= 6 {
		d = all[(c.a-6)%len(all)] - p.passed + pick(c.b, 0, time.Microsecond, -time.Microsecond)
	}
	p.passed += d
	p.Advance(d)
	p.recordLine("the clock moves by %v to %v", d, p.passed)
}
