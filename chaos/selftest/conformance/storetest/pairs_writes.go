package storetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// Writes returns the calls that meet: every writing method, about the rows and the worker of the stage,
// whether or not it has an effect there.
func (st *Stage) Writes() []Write {
	return slices.Concat(st.userWrites(), st.schedulingWrites(), st.recoveryWrites(), st.fleetWrites(), st.workerWrites(), st.purgeWrites(), st.manualEdits())
}

// Editor is a store whose rows can also be edited manually.
type Editor interface {
	// EditByHand sets the max_retries of an execution, if it exists.
	EditByHand(ctx context.Context, id execution.ID, maxRetries int) error
}

func (st *Stage) manualEdits() []Write {
	return []Write{oneLineWrite("EditByHand", "", func(ctx context.Context, s store.Store) (string, error) {
		return "", s.(Editor).EditByHand(ctx, st.key.ID, 7)
	})}
}

// oneLineWrite is a call whose answer is one line.
func oneLineWrite(method, name string, do func(ctx context.Context, s store.Store) (string, error)) Write {
	return Write{Method: method, Name: name, do: func(ctx context.Context, s store.Store) Answer {
		text, err := do(ctx, s)
		return Answer{head: fmt.Sprint(method, ": ", errorKind(err), " ", text), tell: func(*player) {}}
	}}
}

// outcomeWrite returns a Write whose call returns a list of outcomes.
func outcomeWrite(method, name string, do func(ctx context.Context, s store.Store) ([]store.Outcome, error)) Write {
	return Write{Method: method, Name: name, do: func(ctx context.Context, s store.Store) Answer {
		outcomes, err := do(ctx, s)
		return Answer{head: fmt.Sprint(method, ": ", errorKind(err)), tell: func(p *player) {
			for _, o := range outcomes {
				p.recordLine("  %s", p.outcomeText(o))
			}
		}}
	}}
}

// batchWrites returns a call about the first row, and one about both rows in descending order.
func (st *Stage) batchWrites(call func(name string, keys []execution.Key) Write) []Write {
	one, two := call("of one row", []execution.Key{st.key}), call("of two rows", []execution.Key{st.second, st.key})
	two.parts = []Write{call("of the other row", []execution.Key{st.second}), one}
	return []Write{one, two}
}

func createWrite(name string, item store.NewExecution, meets ...string) Write {
	return Write{Method: "Create", Name: name, Meets: meets, do: func(ctx context.Context, s store.Store) Answer {
		created, err := s.Create(ctx, []store.NewExecution{item})
		var a Answer
		for _, c := range created {
			if !c.Existed && c.ID != 0 {
				a.made = append(a.made, c.ID)
			}
		}
		a.tell = func(p *player) {
			p.recordLine("Create: %s", errorKind(err))
			for _, c := range created {
				id := p.idText(c.ID)
				c.ID = 0
				p.recordLine("  %s %+v", id, c)
			}
		}
		return a
	}}
}

func cancelWrite(name string, id execution.ID) Write {
	return outcomeWrite("Cancel", name, func(ctx context.Context, s store.Store) (all []store.Outcome, err error) {
		answers, err := s.Cancel(ctx, []execution.ID{id}, "ci")
		for _, a := range answers {
			all = append(all, a.Outcome)
		}
		return all, err
	})
}

func (st *Stage) userWrites() []Write {
	put := func(name string, limit int) Write {
		return oneLineWrite("PutActions", name, func(ctx context.Context, s store.Store) (string, error) {
			a := Actions()[0]
			a.Concurrency = limit
			return "", s.PutActions(ctx, []execution.Action{free, a})
		})
	}
	cordon := func(name string, c store.Cordon) Write {
		c.Worker = st.worker.ID
		return oneLineWrite("SetCordon", name, func(ctx context.Context, s store.Store) (string, error) {
			found, err := s.SetCordon(ctx, c)
			return fmt.Sprint(found), err
		})
	}
	all := []Write{
		put("with a limit of two", 2), put("without a limit", 0),
		createWrite("without a key", store.NewExecution{ActionRef: free.Ref}),
		createWrite("under a new key", store.NewExecution{ActionRef: free.Ref, IdempotencyKey: "new"}, "key new"),
		createWrite("under an old key", store.NewExecution{ActionRef: free.Ref, IdempotencyKey: "old"}),
		createWrite("of a child", store.NewExecution{ActionRef: free.Ref, Parent: st.key.ID}),
		createWrite("of a child of the row without a limit", store.NewExecution{ActionRef: free.Ref, Parent: st.second.ID}),
		createWrite("of a child under a new key", store.NewExecution{ActionRef: free.Ref, Parent: st.chain, IdempotencyKey: "new"}, "key new"),
		cancelWrite("of the chain", st.chain),
		cordon("on", store.Cordon{On: true, Reason: "why"}), cordon("on and drain", store.Cordon{On: true, Reason: "drain", Drain: true}), cordon("off", store.Cordon{}),
		oneLineWrite("SettleDeadLetter", "", func(ctx context.Context, s store.Store) (string, error) {
			done, err := s.SettleDeadLetter(ctx, st.letter, "discarded", "ops")
			return fmt.Sprint(done), err
		}),
		{Method: "DiscardDeadLetters", Passes: true, do: func(ctx context.Context, s store.Store) Answer {
			done, err := s.DiscardDeadLetters(ctx, store.DeadLetterDiscard{Limit: many}, "discarded in bulk")
			if err == nil && done.Closed == 0 {
				return passed
			}
			return Answer{tell: func(p *player) { p.recordLine("DiscardDeadLetters: %s %d", errorKind(err), done.Closed) }}
		}},
	}
	if st.child != 0 {
		all = append(all, cancelWrite("of the child", st.child), createWrite("of a grandchild", store.NewExecution{ActionRef: free.Ref, Parent: st.child}))
	}
	return all
}

func (st *Stage) schedulingWrites() []Write {
	claim := func(name string, c store.SchedulingClaim) Write {
		c.Executor, c.Expiry = "another", time.Minute
		return Write{Method: "ClaimForScheduling", Name: name, Passes: true, do: func(ctx context.Context, s store.Store) Answer {
			rows, err := s.ClaimForScheduling(ctx, c)
			if err == nil && len(rows) == 0 {
				return passed
			}
			return Answer{tell: func(p *player) { p.recordLine("ClaimForScheduling: %s [%s]", errorKind(err), p.keyTexts(rows)) }}
		}}
	}
	direct := func(name, runtime string) Write {
		return Write{Method: "DispatchDue", Name: name, Passes: true, Meets: []string{"turn"}, do: func(ctx context.Context, s store.Store) Answer {
			answer, err := s.DispatchDue(ctx, store.DueDispatch{
				Executor: "another", Expiry: time.Minute, Timeout: DispatchTimeout, Offers: []store.Offer{newOffer([]string{runtime}, 0, st.worker)},
			})
			if err == nil && len(answer.Rows) == 0 {
				return passed
			}
			return Answer{tell: func(p *player) { p.recordLine("DispatchDue: %s [%s]", errorKind(err), p.keyTexts(answer.Rows)) }}
		}}
	}
	dispatch := func(limit int, meets ...string) func(name string, keys []execution.Key) Write {
		return func(name string, keys []execution.Key) Write {
			name = fmt.Sprint(name, ", at most ", limit)
			w := outcomeWrite("Dispatch", name, func(ctx context.Context, s store.Store) (all []store.Outcome, err error) {
				results, err := s.Dispatch(ctx, "executor", requestsFor(keys, func(key execution.Key) store.Dispatch {
					return store.Dispatch{Key: key, Worker: st.worker, Timeout: DispatchTimeout, Limit: limit}
				}))
				for _, r := range results {
					all = append(all, r.Outcome)
				}
				return all, err
			})
			w.Meets = meets
			return w
		}
	}
	park := func(unschedulable bool) func(name string, keys []execution.Key) Write {
		return func(name string, keys []execution.Key) Write {
			return outcomeWrite("Park", fmt.Sprint(name, ", unschedulable ", unschedulable), func(ctx context.Context, s store.Store) ([]store.Outcome, error) {
				return s.Park(ctx, "executor", requestsFor(keys, func(key execution.Key) store.Park {
					return store.Park{Key: key, Unschedulable: unschedulable, Delay: time.Second, Result: execution.Result{Error: "no worker"}}
				}))
			})
		}
	}
	return slices.Concat(
		[]Write{
			claim("of one of a runtime", store.SchedulingClaim{Demands: []store.Demand{{Runtime: "shell", Limit: 1}}}),
			claim("of one of another runtime", store.SchedulingClaim{Demands: []store.Demand{{Runtime: "python", Limit: 1}}}),
			direct("of one of a runtime", "shell"), direct("of one of another runtime", "python"),
		},
		st.batchWrites(dispatch(0)), st.batchWrites(dispatch(1, "turn")), st.batchWrites(park(false)), st.batchWrites(park(true)),
		st.batchWrites(func(name string, keys []execution.Key) Write {
			mark := oneLineWrite("MarkPublished", name, func(ctx context.Context, s store.Store) (string, error) {
				_, err := s.MarkPublished(ctx, keys)
				return "", err
			})
			mark.Passes, mark.skipped = true, &Answer{head: fmt.Sprint("MarkPublished: ", errorKind(nil), " "), tell: func(*player) {}}
			return mark
		}),
	)
}

func (st *Stage) recoveryWrites() []Write {
	var all []Write
	for cause := store.Unclaimed; cause <= store.ClaimExpired; cause++ {
		r := store.Reclaim{
			Cause: cause, By: execution.Reconciler, Reason: execution.WorkerLost, Result: execution.Result{Error: "taken back"},
			Policy: config.Reschedule, MaxDispatches: 2, Counts: cause == store.DeadLettered, To: execution.Abandoned,
		}
		if cause == store.Undeliverable {
			r.Policy = config.Fail
		}
		writes := st.batchWrites(func(name string, keys []execution.Key) Write {
			return outcomeWrite("Reclaim", fmt.Sprint(name, " on ground ", cause), func(ctx context.Context, s store.Store) ([]store.Outcome, error) {
				return s.Reclaim(ctx, requestsFor(keys, func(key execution.Key) store.Reclaim {
					r := r
					r.Key = key
					return r
				}))
			})
		})
		if cause != store.OwnerGone && cause != store.DeadLettered {
			writes = writes[:1]
		}
		all = append(all, writes...)
	}
	all = append(all, st.observationWrites()...)
	orchestrate := func(name string, retry *store.Retry, ids ...execution.ID) Write {
		return Write{Method: "Orchestrate", Name: name, do: func(ctx context.Context, s store.Store) Answer {
			done, err := s.Orchestrate(ctx, requestsFor(ids, func(id execution.ID) store.Orchestration {
				return store.Orchestration{ID: id, Retry: retry}
			}))
			var a Answer
			for _, o := range done {
				if o.Retry != 0 {
					a.made = append(a.made, o.Retry)
				}
			}
			a.head = fmt.Sprint("Orchestrate: ", errorKind(err))
			a.tell = func(p *player) {
				for _, o := range done {
					p.recordLine("  applied %v, %s, children %v", o.Applied, p.idText(o.Retry), o.Children)
				}
			}
			return a
		}}
	}
	both := orchestrate("of two rows", nil, st.second.ID, st.key.ID)
	both.parts = []Write{orchestrate("of the other row", nil, st.second.ID), orchestrate("without a retry", nil, st.key.ID)}
	retry := &store.Retry{Count: st.retries + 1, Reason: execution.Connection, Delay: time.Second}
	return append(all,
		orchestrate("without a retry", nil, st.key.ID), orchestrate("with a retry", retry, st.key.ID), both,
		Write{Method: "SettleChildren", Passes: true, do: func(ctx context.Context, s store.Store) Answer {
			settled, err := s.SettleChildren(ctx, []execution.ID{st.chain}, many)
			if err == nil && len(settled) == 1 && len(settled[0].Started)+len(settled[0].Skipped) == 0 {
				return passed
			}
			return Answer{tell: func(p *player) {
				for _, x := range settled {
					p.recordLine("SettleChildren: %s, started %s, skipped %s, more %v", errorKind(err), p.sortedIDs(x.Started), p.sortedIDs(x.Skipped), x.More)
				}
			}}
		}},
		Write{Method: "FreeSlots", Passes: true, do: func(ctx context.Context, s store.Store) Answer {
			freed, err := s.FreeSlots(ctx, many)
			if err == nil && len(freed) == 0 {
				return passed
			}
			return Answer{tell: func(p *player) { p.recordLine("FreeSlots: %s %s", errorKind(err), p.sortedIDs(freed)) }}
		}},
		Write{Method: "ForgetKeys", Passes: true, do: func(ctx context.Context, s store.Store) Answer {
			n, err := s.ForgetKeys(ctx, keyAge, many)
			if err == nil && n == 0 {
				return passed
			}
			return Answer{tell: func(p *player) { p.recordLine("ForgetKeys: %s %d", errorKind(err), n) }}
		}},
	)
}

// observationWrites record what other parts would do.
func (st *Stage) observationWrites() []Write {
	observing := func(cause store.ReclaimCause) func(name string, keys []execution.Key) Write {
		return func(name string, keys []execution.Key) Write {
			return Write{Method: "ObserveReclaims", Name: fmt.Sprint(name, " on ground ", cause), do: func(ctx context.Context, s store.Store) Answer {
				all, err := s.ObserveReclaims(ctx, requestsFor(keys, func(key execution.Key) store.Reclaim { return observedReclaim(key, cause, time.Second) }))
				return Answer{head: fmt.Sprint("ObserveReclaims: ", errorKind(err)), tell: func(p *player) {
					for _, o := range all {
						p.recordLine("  new %v, would %v", o.New, o.Would)
					}
				}}
			}}
		}
	}
	probed := func(name string, ready bool) Write {
		return oneLineWrite("ObserveWorkers", name, func(ctx context.Context, s store.Store) (string, error) {
			changed, err := s.ObserveWorkers(ctx, []store.ProbedWorker{{WorkerKey: st.worker, Ready: ready, Reason: "refused"}})
			return fmt.Sprint(changed), err
		})
	}
	purge := func(age time.Duration) Write {
		return Write{Method: "PurgeObservations", Passes: true, do: func(ctx context.Context, s store.Store) Answer {
			n, err := s.PurgeObservations(ctx, age, many)
			if err == nil && n == 0 {
				return passed
			}
			return Answer{tell: func(p *player) { p.recordLine("PurgeObservations: %s %d", errorKind(err), n) }}
		}}
	}
	all := append(append(st.batchWrites(observing(store.Unclaimed)), st.batchWrites(observing(store.Overrun))[0]),
		probed("not ready", false), probed("ready", true))
	if st.other.Incarnation == 0 {
		return append(all, purge(0))
	}
	// A purge of two rows may skip one of them, which no order of whole calls explains. So none is old
	// enough.
	return append(all, purge(time.Hour), oneLineWrite("ObserveWorkers", "both ready", func(ctx context.Context, s store.Store) (string, error) {
		changed, err := s.ObserveWorkers(ctx, []store.ProbedWorker{{WorkerKey: st.worker, Ready: true}, {WorkerKey: st.other, Ready: true}})
		return fmt.Sprint(changed), err
	}))
}

func (st *Stage) fleetWrites() []Write {
	reap := oneLineWrite("Reap", "", func(ctx context.Context, s store.Store) (string, error) {
		marked, err := s.Reap(ctx, []store.Reap{{WorkerKey: st.worker, Beat: 1}})
		return fmt.Sprint(marked), err
	})
	letter := oneLineWrite("StoreDeadLetters", "", func(ctx context.Context, s store.Store) (string, error) {
		return "", s.StoreDeadLetters(ctx, store.DeadLetter{Queue: "q", Reason: "rejected", Outcome: "new", Open: true})
	})
	purge := Write{Method: "PurgeDeadLetters", Passes: true, do: func(ctx context.Context, s store.Store) Answer {
		n, err := s.PurgeDeadLetters(ctx, 0, many)
		if err == nil && n == 0 {
			return passed
		}
		return Answer{tell: func(p *player) { p.recordLine("PurgeDeadLetters: %s %d", errorKind(err), n) }}
	}}
	mark := Write{Method: "MarkQueuesDeleted", Passes: true, do: func(ctx context.Context, s store.Store) Answer {
		marked, err := s.MarkQueuesDeleted(ctx, []store.WorkerKey{st.worker})
		if err == nil && !marked[0] {
			return passed
		}
		return Answer{tell: func(p *player) { p.recordLine("MarkQueuesDeleted: %s %v", errorKind(err), marked) }}
	}}
	return []Write{reap, letter, purge, mark}
}

func registerWrite(name string, g store.Registration, meets ...string) Write {
	return Write{Method: "Register", Name: name, Meets: meets, do: func(ctx context.Context, s store.Store) Answer {
		r, err := s.Register(ctx, g)
		return Answer{registered: r.WorkerKey, tell: func(p *player) {
			p.recordLine("Register: %s, %s of %s", errorKind(err), p.incarnationText(r.Incarnation), p.workerText(r.ID))
		}}
	}}
}

func (st *Stage) lifecycleWrite(to execution.Lifecycle) Write {
	return oneLineWrite("SetLifecycle", to.String(), func(ctx context.Context, s store.Store) (string, error) {
		return "", s.SetLifecycle(ctx, st.worker, to)
	})
}

func (st *Stage) heartbeatWrite(name string, held ...execution.Key) Write {
	return Write{Method: "Heartbeat", Name: name, do: func(ctx context.Context, s store.Store) Answer {
		reply, err := s.Heartbeat(ctx, store.Beat{WorkerKey: st.worker, Number: 2, Lease: Lease, ConsumerAlive: true, Held: held})
		return Answer{tell: func(p *player) {
			p.recordLine("Heartbeat: %s, lost %v, to be ended %v, drain %v", errorKind(err), reply.Lost, reply.Cancel, reply.Drain)
			for _, o := range reply.Ended {
				p.recordLine("  ended %s", p.outcomeText(o))
			}
		}}
	}}
}

func (st *Stage) workerWrites() []Write {
	finish := func(to execution.Status, reason execution.Reason) func(name string, keys []execution.Key) Write {
		return func(name string, keys []execution.Key) Write {
			return outcomeWrite("Finish", fmt.Sprint(name, " as ", to), func(ctx context.Context, s store.Store) ([]store.Outcome, error) {
				return s.Finish(ctx, st.worker, requestsFor(keys, func(key execution.Key) store.Finish {
					return store.Finish{Key: key, To: to, Reason: reason}
				}))
			})
		}
	}
	claim := func(name string, keys []execution.Key) Write {
		return outcomeWrite("Claim", name, func(ctx context.Context, s store.Store) (all []store.Outcome, err error) {
			results, err := s.Claim(ctx, st.worker, requestsFor(keys, func(key execution.Key) store.Claim { return store.Claim{Key: key, Beat: 1} }))
			for _, r := range results {
				all = append(all, r.Outcome)
			}
			return all, err
		})
	}
	again := store.Registration{Process: 901, Attempt: 1, After: st.worker.Incarnation, Name: "w", Runtimes: []string{"shell"}, Capacity: 4, Lease: Lease}
	third, other, anew := again, again, again
	third.Process, other.Name, other.After = 902, "new", 0
	anew.Process, anew.Attempt = st.process, 2
	return slices.Concat(
		st.batchWrites(claim), st.batchWrites(finish(execution.Completed, execution.NoReason)), st.batchWrites(finish(execution.Failed, execution.Connection))[:1],
		[]Write{
			registerWrite("of the same name", again), registerWrite("of the same name by a third process", third), registerWrite("of a new name", other, "name new"),
			registerWrite("of the same name by the same process", anew),
			st.lifecycleWrite(execution.Active), st.lifecycleWrite(execution.Draining), st.lifecycleWrite(execution.Stopped),
			st.heartbeatWrite("holding both rows", st.key, st.second), st.heartbeatWrite("holding nothing"),
			{Method: "Release", do: func(ctx context.Context, s store.Store) Answer {
				keys, err := s.Release(ctx, st.worker)
				return Answer{tell: func(p *player) {
					p.recordLine("Release: %s", errorKind(err))
					for _, key := range keys {
						p.recordLine("  %s", p.keyText(key))
					}
				}}
			}},
			oneLineWrite("KeepRefusedResult", "", func(ctx context.Context, s store.Store) (string, error) {
				return "", s.KeepRefusedResult(ctx, st.worker, store.Finish{Key: st.key, To: execution.Completed})
			}),
		},
	)
}

// purgeWrites delete rows immediately, of the chain and the worker of the stage. A purge of two chains may
// skip one of them, which no order of whole calls explains, so each covers one.
func (st *Stage) purgeWrites() []Write {
	purge := func(what store.Kept, after int64) Write {
		return Write{Method: "Purge", Name: "of " + what.String(), Passes: true, do: func(ctx context.Context, s store.Store) Answer {
			done, err := s.Purge(ctx, store.Purge{What: what, After: after, Limit: 1})
			if err == nil && done.Removed == 0 {
				return passed
			}
			return Answer{tell: func(p *player) { p.recordLine("Purge of %v: %s %d", what, errorKind(err), done.Removed) }}
		}}
	}
	return []Write{
		purge(store.KeptExecutions, int64(st.chain)-1), purge(store.KeptRefusedResults, 0), purge(store.KeptExpiries, 0),
		purge(store.KeptIncarnations, int64(st.worker.Incarnation)-1), purge(store.KeptWorkers, int64(st.worker.ID)-1),
	}
}
