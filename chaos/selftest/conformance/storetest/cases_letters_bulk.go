package storetest

import (
	"fmt"
	"strings"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// storeOpenDeadLetters stores open dead letters: each is "reason queue action worker".
func storeOpenDeadLetters(b *fixture, letters ...string) {
	b.t.Helper()
	for _, text := range letters {
		d := store.DeadLetter{Outcome: "kept", Open: true}
		if _, err := fmt.Sscan(strings.ReplaceAll(text, "-", "."), &d.Reason, &d.Queue, &d.ActionRef, &d.Worker); err != nil {
			b.t.Fatalf("%q: %v", text, err)
		}
		if d.ActionRef == "." {
			d.ActionRef = ""
		}
		b.must(b.Store.StoreDeadLetters(b.ctx, d))
	}
}

func deadLetterBulkCases() []Case {
	return append(deadLetterDiscardCases(), deadLetterSummaryCases()...)
}

func deadLetterDiscardCases() []Case {
	// discard shows the result of a call, and the places of the letters that are open after it.
	discard := func(b *fixture, d store.DeadLetterDiscard) string {
		b.t.Helper()
		if d.Limit == 0 {
			d.Limit = 10
		}
		done, err := b.Store.DiscardDeadLetters(b.ctx, d, "discarded")
		b.must(err)
		all, err := b.Store.DeadLetters(b.ctx, store.DeadLetterQuery{Limit: 20})
		b.must(err)
		first, open := all[len(all)-1].ID-1, ""
		for i := len(all) - 1; i >= 0; i-- {
			if all[i].Open {
				open += fmt.Sprint(" ", all[i].ID-first)
			} else if all[i].Outcome != "discarded" || all[i].HandledAt.IsZero() {
				b.t.Errorf("a dead letter is closed as %q at %v", all[i].Outcome, all[i].HandledAt)
			}
		}
		return fmt.Sprintf("%d, next %d, more %v; open%s", done.Closed, done.Next-first, done.More, open)
	}
	one := func(b *fixture) (first int64) {
		b.t.Helper()
		all, err := b.Store.DeadLetters(b.ctx, store.DeadLetterQuery{Limit: 20})
		b.must(err)
		return all[len(all)-1].ID
	}
	return []Case{
		{"dead letters are discarded by what they have in common", func(b *fixture) {
			storeOpenDeadLetters(b, "expired q a 1", "rejected q a 2", "expired r b 1", "maxlen r - 0")
			b.expect("by reason and queue", discard(b, store.DeadLetterDiscard{Reason: "expired", Queue: "q"}), "1, next 4, more false; open 2 3 4")
			b.expect("by action", discard(b, store.DeadLetterDiscard{ActionRef: "b"}), "1, next 4, more false; open 2 4")
			b.expect("by worker", discard(b, store.DeadLetterDiscard{Worker: 2}), "1, next 4, more false; open 4")
			b.expect("by what none has", discard(b, store.DeadLetterDiscard{Reason: "expired"}), "0, next 4, more false; open 4")
			b.expect("all", discard(b, store.DeadLetterDiscard{}), "1, next 4, more false; open")
		}},
		{"a discard reads a limited number of open dead letters, and returns where to continue", func(b *fixture) {
			storeOpenDeadLetters(b, "expired q a 1", "rejected q a 1", "expired q a 1", "rejected q a 1", "expired q a 1")
			first := one(b)
			d := store.DeadLetterDiscard{Reason: "expired", Limit: 2}
			b.expect("the first two", discard(b, d), "1, next 2, more true; open 2 3 4 5")
			d.After = first + 1
			b.expect("the next two", discard(b, d), "1, next 4, more true; open 2 4 5")
			d.After = first + 3
			b.expect("the last one", discard(b, d), "1, next 5, more false; open 2 4")
			d.After = first + 4
			b.expect("behind the last one", discard(b, d), "0, next 5, more false; open 2 4")
		}},
		{"dead letters are discarded by their ids, those that are closed left as they are", func(b *fixture) {
			storeOpenDeadLetters(b, "expired q a 1", "expired q a 1", "expired q a 1", "rejected q a 1")
			first := one(b)
			_, err := b.Store.SettleDeadLetter(b.ctx, first, "discarded", "")
			b.must(err)
			ids := []int64{first + 3, first, first + 1, first + 9}
			b.expect("one of them", discard(b, store.DeadLetterDiscard{IDs: ids, Reason: "rejected"}), "1, next 4, more false; open 2 3")
			b.expect("all of them", discard(b, store.DeadLetterDiscard{IDs: ids, Limit: 1}), "1, next 2, more false; open 3")
			b.expect("none", discard(b, store.DeadLetterDiscard{IDs: []int64{}}), "0, next 0, more false; open 3")
		}},
		{"dead letters are discarded from an age on", func(b *fixture) {
			storeOpenDeadLetters(b, "expired q a 1")
			b.Advance(time.Second)
			storeOpenDeadLetters(b, "expired q a 1")
			b.Advance(9*time.Second - tick)
			d := store.DeadLetterDiscard{OlderThan: 10 * time.Second}
			b.expect("before", discard(b, d), "0, next 2, more false; open 1 2")
			b.Advance(tick)
			b.expect("at the age", discard(b, d), "1, next 2, more false; open 2")
		}},
	}
}

func deadLetterSummaryCases() []Case {
	all := store.DeadLetterSummaryQuery{Window: time.Hour, ByReason: true, ByAction: true, ByWorker: true, Limit: 10}
	ask := func(b *fixture, q store.DeadLetterSummaryQuery) store.DeadLetterSummary {
		b.t.Helper()
		found, err := b.Store.SummarizeDeadLetters(b.ctx, q)
		b.must(err)
		b.expect("the width of the window", found.Until.Sub(found.Since), q.Window)
		return found
	}
	summary := func(b *fixture, q store.DeadLetterSummaryQuery) string {
		b.t.Helper()
		found := ask(b, q)
		text := fmt.Sprintf("%d:", found.Total)
		for _, g := range found.Groups {
			text += fmt.Sprintf(" %d %s/%s/%d", g.Count, g.Reason, g.ActionRef, g.Worker)
		}
		return fmt.Sprint(text, ", more ", found.More)
	}
	return []Case{
		{"dead letters are counted by reason, action and worker, the most first", func(b *fixture) {
			b.expect("none", summary(b, all), "0:, more false")
			storeOpenDeadLetters(b, "rejected q b 1", "expired q a 2", "expired q a 1", "expired r a 1", "maxlen r - 0")
			b.expect("by all", summary(b, all), "5: 2 expired/a/1 1 expired/a/2 1 maxlen//0 1 rejected/b/1, more false")
			q := all
			q.Limit = 2
			b.expect("no more than asked for", summary(b, q), "5: 2 expired/a/1 1 expired/a/2, more true")
			q.Limit = 4
			b.expect("as many as there are", summary(b, q), "5: 2 expired/a/1 1 expired/a/2 1 maxlen//0 1 rejected/b/1, more false")
			b.expect("by reason", summary(b, store.DeadLetterSummaryQuery{Window: time.Hour, ByReason: true, Limit: 10}), "5: 3 expired//0 1 maxlen//0 1 rejected//0, more false")
			b.expect("by worker", summary(b, store.DeadLetterSummaryQuery{Window: time.Hour, ByWorker: true, Limit: 10}), "5: 3 //1 1 //0 1 //2, more false")
			b.expect("by nothing", summary(b, store.DeadLetterSummaryQuery{Window: time.Hour, Limit: 10}), "5: 5 //0, more false")
			kept, err := b.Store.DeadLetters(b.ctx, store.DeadLetterQuery{Limit: 2})
			b.must(err)
			b.expect("what is kept of them", fmt.Sprint(kept[0].ActionRef, kept[0].Worker, kept[1].ActionRef, kept[1].Worker), fmt.Sprint("", execution.WorkerID(0), "a", execution.WorkerID(1)))
		}},
		{"dead letters are counted within a window of time, and in periods of it", func(b *fixture) {
			begin := ask(b, all).Until
			b.Advance(begin.Truncate(time.Minute).Add(time.Minute).Sub(begin))
			storeOpenDeadLetters(b, "expired q a 1")
			b.Advance(time.Minute - tick)
			storeOpenDeadLetters(b, "expired q a 1", "expired q a 1")
			b.Advance(tick)
			storeOpenDeadLetters(b, "expired q a 1")
			q := store.DeadLetterSummaryQuery{Window: time.Minute, Limit: 10}
			b.expect("at the edge of the window", summary(b, q), "4: 4 //0, more false")
			b.Advance(tick)
			b.expect("behind it", summary(b, q), "3: 3 //0, more false")
			q.Every, q.Window = time.Minute, time.Hour
			found := ask(b, q)
			b.expect("periods", len(found.Groups), 2)
			b.expect("the latest", fmt.Sprint(found.Groups[0].Count, found.Groups[0].From.Equal(found.Until.Truncate(time.Minute))), "1 true")
			b.expect("the one before", fmt.Sprint(found.Groups[1].Count, found.Groups[0].From.Sub(found.Groups[1].From)), "3 1m0s")
		}},
	}
}
