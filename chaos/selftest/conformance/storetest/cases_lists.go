package storetest

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

func listCases() []Case {
	return []Case{
		{"actions are listed by their refs, a page at a time, as they were put", func(b *fixture) {
			put := []execution.Action{
				{Ref: "b.two", Runtime: "shell", Entrypoint: "e", Timeout: 90 * time.Second, DispatchTimeout: 1500 * time.Millisecond, MaxRetries: 2, RetriedExitCodes: execution.NewExitCodes(1, 255), Concurrency: 3},
				{Ref: "B.first", Runtime: "python", Entrypoint: "e.py"},
			}
			b.must(b.Store.PutActions(b.ctx, put))
			page := func(q store.ActionQuery) (refs []string) {
				actions, err := b.Store.Actions(b.ctx, q)
				b.must(err)
				for _, a := range actions {
					refs = append(refs, a.Ref)
				}
				return refs
			}
			all := page(store.ActionQuery{Limit: 100})
			b.expect("the order", slices.IsSorted(all), true)
			b.expect("all are there", slices.Contains(all, "b.two") && slices.Contains(all, "B.first") && slices.Contains(all, "shell.echo"), true)
			b.expect("a page", fmt.Sprint(page(store.ActionQuery{After: all[0], Limit: 1})), fmt.Sprint(all[1:2]))
			b.expect("after the last", len(page(store.ActionQuery{After: all[len(all)-1], Limit: 5})), 0)
			b.expect("of no size", len(page(store.ActionQuery{})), 0)
			b.expect("one that is not there", len(page(store.ActionQuery{Ref: "no.such", Limit: 1})), 0)
			one, err := b.Store.Actions(b.ctx, store.ActionQuery{Ref: "b.two", Limit: 1})
			b.must(err)
			b.expect("one by its name", fmt.Sprint(one), fmt.Sprint(put[:1]))
		}},
		{"the clock is the one that deadlines are judged by", func(b *fixture) {
			before, err := b.Store.Clock(b.ctx)
			b.must(err)
			b.Advance(90 * time.Second)
			after, err := b.Store.Clock(b.ctx)
			b.must(err)
			b.expect("how far it went", after.Sub(before), 90*time.Second)
			rows, err := b.Store.Executions(b.ctx, b.createExecutions("shell.echo", 1))
			b.must(err)
			b.expect("what was created then", rows[0].Created.Sub(after), time.Duration(0))
		}},
		{"executions are listed newest first, a page at a time, and filtered", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.runningExecution(w)
			ids := b.createExecutions("python.run", 3)
			child := b.createChild(key.ID, "").ID
			page := func(q store.ExecutionQuery) string {
				rows, err := b.Store.List(b.ctx, q)
				b.must(err)
				var found []execution.ID
				for i := range rows {
					found = append(found, rows[i].ID)
				}
				return idList(found...)
			}
			b.expect("the first page", page(store.ExecutionQuery{Limit: 2}), idList(child, ids[2]))
			b.expect("the next page", page(store.ExecutionQuery{Limit: 10, Before: ids[2]}), idList(ids[1], ids[0], key.ID))
			b.expect("by status", page(store.ExecutionQuery{Limit: 10, Status: execution.Running}), idList(key.ID))
			b.expect("by action", page(store.ExecutionQuery{Limit: 2, ActionRef: "python.run"}), idList(ids[2], ids[1]))
			b.expect("by worker", page(store.ExecutionQuery{Limit: 10, Worker: w.ID}), idList(key.ID))
			b.expect("by parent", page(store.ExecutionQuery{Limit: 10, Parent: key.ID}), idList(child))
			b.expect("of what does not exist", page(store.ExecutionQuery{Limit: 10, ActionRef: "no.such"}), idList())
			b.expect("of no size", page(store.ExecutionQuery{Status: execution.Running}), idList())
			b.expect("named one by one", page(store.ExecutionQuery{IDs: []execution.ID{ids[0], 999, ids[2], ids[0]}}), idList(ids[2], ids[0]))
			b.expect("none named", page(store.ExecutionQuery{IDs: []execution.ID{}, Limit: 5}), idList())
		}},
		{"executions are filtered by reason and by times", func(b *fixture) {
			w := b.activeWorker("w")
			failed := b.failedExecution(w).ID
			runs := b.runningExecution(w).ID
			rows, err := b.Store.Executions(b.ctx, []execution.ID{failed})
			b.must(err)
			before := rows[0].Ended
			b.Advance(time.Second)
			late := b.failedExecution(w).ID
			rows, err = b.Store.Executions(b.ctx, []execution.ID{late})
			b.must(err)
			created, ended := rows[0].Created, rows[0].Ended
			page := func(q store.ExecutionQuery) string {
				var pages []string
				for _, q.OnlyIDs = range []bool{false, true} {
					q.Limit = 10
					found, err := b.Store.List(b.ctx, q)
					b.must(err)
					var ids []execution.ID
					for i := range found {
						ids = append(ids, found[i].ID)
						b.expect("only its id", found[i].Status == execution.None, q.OnlyIDs)
					}
					pages = append(pages, idList(ids...))
				}
				b.expect("the ids alone", pages[1], pages[0])
				return pages[0]
			}
			b.expect("by reason", page(store.ExecutionQuery{Reason: execution.Connection}), idList(late, failed))
			b.expect("by another reason", page(store.ExecutionQuery{Status: execution.Failed, Reason: execution.NoWorkers}), idList())
			b.expect("an open execution has no reason", page(store.ExecutionQuery{Status: execution.Running, Reason: execution.Connection}), idList())
			b.expect("created from", page(store.ExecutionQuery{Created: store.Period{From: created}}), idList(late))
			b.expect("created to", page(store.ExecutionQuery{Created: store.Period{To: created}}), idList(runs, failed))
			b.expect("open, created to", page(store.ExecutionQuery{Status: execution.Running, Created: store.Period{To: created}}), idList(runs))
			b.expect("ended from", page(store.ExecutionQuery{Ended: store.Period{From: ended}}), idList(late))
			b.expect("ended to", page(store.ExecutionQuery{Ended: store.Period{To: ended}}), idList(failed))
			b.expect("ended within", page(store.ExecutionQuery{Status: execution.Failed, Ended: store.Period{From: before, To: ended}}), idList(failed))
		}},
		{"lists omit large values", func(b *fixture) {
			parameters := []byte(`{"a": "\u00fc", "b":  1}`)
			key := b.failedExecution(b.activeWorker("w"))
			made, err := b.Store.Create(b.ctx, []store.NewExecution{{ActionRef: "shell.echo", Parameters: parameters}})
			b.must(err)
			id := made[0].ID
			of := func(rows []store.Listed, err error) string {
				b.must(err)
				r := &rows[0]
				return fmt.Sprint(r.ID, " ", r.Action.Ref, len(r.Action.Entrypoint), " ", string(r.Parameters), r.Result.Error != "", r.Digest == sha256.Sum256(parameters), r.Size, r.Unreadable)
			}
			small := fmt.Sprint(id, " shell.echo0 false false 0")
			b.expect("in a page", of(b.Store.List(b.ctx, store.ExecutionQuery{Limit: 1})), small)
			b.expect("in a chain", of(b.Store.Chain(b.ctx, id)), small)
			b.expect("by its id", of(b.Store.List(b.ctx, store.ExecutionQuery{IDs: []execution.ID{id}})), small)
			b.expect("by its id, with its parameters", of(b.Store.List(b.ctx, store.ExecutionQuery{IDs: []execution.ID{id}, WithParameters: true})), fmt.Sprint(id, " shell.echo0 ", string(parameters), "false false 0"))
			b.expect("by its id, with their digest", of(b.Store.List(b.ctx, store.ExecutionQuery{IDs: []execution.ID{id}, Digests: true})), fmt.Sprint(id, " shell.echo0 false true ", len(parameters)))
			b.expect("a result", of(b.Store.List(b.ctx, store.ExecutionQuery{IDs: []execution.ID{key.ID}})), fmt.Sprint(key.ID, " shell.echo0 false false 0"))
		}},
		{"workers are listed by their ids, a page at a time", func(b *fixture) {
			first, second, third := b.activeWorker("w1"), b.activeWorker("w2"), b.activeWorker("w3")
			page := func(q store.WorkerQuery) (all string) {
				rows, err := b.Store.FindWorkers(b.ctx, q)
				b.must(err)
				for i := range rows {
					all += fmt.Sprint(rows[i].ID, rows[i].Name, rows[i].Unreadable, ";")
				}
				return all
			}
			b.expect("the first page", page(store.WorkerQuery{Limit: 2}), fmt.Sprint(first.ID, "w1;", second.ID, "w2;"))
			b.expect("the next page", page(store.WorkerQuery{After: second.ID, Limit: 2}), fmt.Sprint(third.ID, "w3;"))
			b.expect("one by its id", page(store.WorkerQuery{ID: second.ID, Limit: 2}), fmt.Sprint(second.ID, "w2;"))
			b.expect("one by its name", page(store.WorkerQuery{Name: "w3", Limit: 2}), fmt.Sprint(third.ID, "w3;"))
			b.expect("one that is not there", page(store.WorkerQuery{Name: "w", Limit: 2}), "")
			b.expect("of no size", page(store.WorkerQuery{}), "")
		}},
		{"a chain is read by any of its rows, first row first", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.failedExecution(w)
			other := b.createExecutions("shell.echo", 1)[0]
			retry := b.orchestrateEnd(key.ID, 1, time.Hour).Retry
			for id, want := range map[execution.ID]string{key.ID: idList(key.ID, retry), retry: idList(key.ID, retry), other: idList(other), 999: idList()} {
				rows, err := b.Store.Chain(b.ctx, id)
				b.must(err)
				var found []execution.ID
				for i := range rows {
					found = append(found, rows[i].ID)
				}
				b.expect("the chain", idList(found...), want)
			}
		}},
	}
}
