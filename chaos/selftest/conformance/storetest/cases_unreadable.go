package storetest

import (
	"fmt"
	"strings"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// unreadableCases are about rows with values that this program does not know, because a newer
// program wrote them.
func unreadableCases() []Case {
	claim := func(b *fixture, c store.SchedulingClaim) string {
		c.Executor, c.Expiry = "executor", time.Minute
		rows, err := b.Store.ClaimForScheduling(b.ctx, c)
		b.must(err)
		var ids []execution.ID
		for i := range rows {
			ids = append(ids, rows[i].ID)
		}
		return idList(ids...)
	}
	survey := func(b *fixture) string {
		found, err := b.Store.Survey(b.ctx)
		b.must(err)
		text := fmt.Sprint(found.UnreadableCount)
		for _, row := range found.Unreadable {
			text += fmt.Sprintf("; %d: %s", row.ID, row.Why)
		}
		return text
	}
	why := func(column string, id execution.ID) string {
		return fmt.Sprintf(`a row can't be read: %s of execution %d: unknown failure reason "of_a_newer_release"`, column, id)
	}
	return []Case{
		{"a waiting execution that can't be read stays as it is, and holds up no other", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.failedExecution(w)
			foreign := b.orchestrateEnd(key.ID, 1, 0).Retry
			b.Foreign(foreign, true)
			b.Advance(tick)
			ids := b.createExecutions("shell.echo", 2)
			b.expect("what is claimed of the lane", claim(b, store.SchedulingClaim{Demands: []store.Demand{{Runtime: "shell", Limit: 1}}}), idList(ids[0]))
			b.expect("what is claimed of the others", claim(b, store.SchedulingClaim{Others: 1}), idList(ids[1]))
			b.expect("what is claimed of no others", claim(b, store.SchedulingClaim{Others: 5}), idList())
			b.expect("the survey", survey(b), fmt.Sprintf("1; %d: %s", foreign, why("retry_reason", foreign)))
			b.Foreign(foreign, false)
			b.expect("what is claimed when it can be read", claim(b, store.SchedulingClaim{Others: 5}), idList(foreign))
			b.expect("the survey then", survey(b), "0")
		}},
		{"an end that can't be read is passed over, and takes no place of others", func(b *fixture) {
			w := b.activeWorker("w")
			foreign := []execution.ID{b.failedExecution(w).ID, b.failedExecution(w).ID}
			for _, id := range foreign {
				b.Foreign(id, true)
			}
			b.Advance(tick)
			key := b.failedExecution(w)
			b.Advance(time.Second)
			b.expect("what is found", idList(b.findRows(store.Finding{Cause: store.Unorchestrated})...), idList(key.ID))
			b.expect("what is found of more", idList(b.findRows(store.Finding{Cause: store.Unorchestrated, Limit: 2})...), idList(key.ID))
			rows, err := b.Store.Executions(b.ctx, []execution.ID{foreign[0], key.ID})
			b.expectError("reading one that can't be read", err, store.ErrUnreadable)
			b.expect("the other one comes with the error", len(rows) == 1 && rows[0].ID == key.ID, true)
			b.expect("the survey", survey(b), fmt.Sprintf("2; %d: %s; %d: %s", foreign[0], why("failure_reason", foreign[0]), foreign[1], why("failure_reason", foreign[1])))
			page, err := b.Store.List(b.ctx, store.ExecutionQuery{Limit: 3})
			b.must(err)
			b.expect("a list", fmt.Sprint(page[0].ID, page[0].Unreadable, page[2].ID, page[2].Status, " ", page[2].Unreadable),
				fmt.Sprint(key.ID, "", foreign[0], execution.None, " ", why("failure_reason", foreign[0])))
			for _, id := range foreign {
				b.Foreign(id, false)
			}
			b.expect("what is found when they can be read", idList(b.findRows(store.Finding{Cause: store.Unorchestrated, Limit: 2})...), idList(foreign...))
		}},
		{"a step answers for every row, whatever one of them contains", func(b *fixture) {
			w := b.activeWorker("w")
			keys := []execution.Key{b.scheduledExecution(w), b.scheduledExecution(w)}
			b.Foreign(keys[0].ID, true)
			claims, err := b.Store.Claim(b.ctx, w, []store.Claim{{Key: keys[0], Beat: 1}, {Key: keys[1], Beat: 1}})
			b.must(err)
			b.expect("both are claimed", claims[0].Applied && claims[1].Applied, true)
			ended, err := b.Store.Finish(b.ctx, w, []store.Finish{{Key: keys[0], To: execution.Completed}, {Key: keys[1], To: execution.Completed}})
			b.must(err)
			b.expect("both end", ended[0].Applied && ended[1].Applied, true)
			b.expect("only the readable one is found", strings.Count(idList(b.findRows(store.Finding{Cause: store.Unorchestrated, Limit: 9})...), ","), 0)
			b.Foreign(keys[0].ID, false)
		}},
	}
}
