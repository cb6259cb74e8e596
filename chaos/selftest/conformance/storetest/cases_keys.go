package storetest

import (
	"fmt"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// keyCases are about idempotency keys: how long a key belongs to an execution, and its next owner.
func keyCases() []Case {
	return []Case{
		{"a key returns the row that it created until its time is over, whether or not it was forgotten", func(b *fixture) {
			parent := b.createExecutions("shell.echo", 1)[0]
			for _, item := range []store.NewExecution{{ActionRef: "shell.echo", IdempotencyKey: "k"}, {ActionRef: "shell.echo", IdempotencyKey: "kc", Parent: parent}} {
				create := func() store.Created {
					created, err := b.Store.Create(b.ctx, []store.NewExecution{item})
					b.must(err)
					return created[0]
				}
				first := create()
				b.Advance(execution.KeyLifetime - tick)
				again := create()
				b.expect("just before: existed, the same", fmt.Sprint(again.Existed, again.ID == first.ID), "true true")
				b.Advance(tick)
				second := create()
				b.expect("at the end: existed, another one", fmt.Sprint(second.Existed, second.ID != first.ID), "false true")
				b.expect("the keys of the rows", fmt.Sprintf("%q %q", b.readRow(first.ID).IdempotencyKey, b.readRow(second.ID).IdempotencyKey), fmt.Sprintf("%q %q", "", item.IdempotencyKey))
				third := create()
				b.expect("and again: existed, the second", fmt.Sprint(third.Existed, third.ID == second.ID), "true true")
			}
		}},
		{"a request that is refused does not take an old key", func(b *fixture) {
			created, err := b.Store.Create(b.ctx, []store.NewExecution{{ActionRef: "shell.echo", IdempotencyKey: "k"}})
			b.must(err)
			b.Advance(execution.KeyLifetime)
			refused, err := b.Store.Create(b.ctx, []store.NewExecution{{ActionRef: "no.such", IdempotencyKey: "k"}})
			b.must(err)
			b.expect("refused", refused[0], store.Created{UnknownAction: true})
			b.expect("the key", b.readRow(created[0].ID).IdempotencyKey, "k")
		}},
		{"a key is forgotten when its time is over", func(b *fixture) {
			item := []store.NewExecution{{ActionRef: "shell.echo", IdempotencyKey: "k"}}
			first, err := b.Store.Create(b.ctx, item)
			b.must(err)
			b.Advance(time.Hour - tick)
			early, err := b.Store.ForgetKeys(b.ctx, time.Hour, 10)
			b.must(err)
			b.Advance(tick)
			due, err := b.Store.ForgetKeys(b.ctx, time.Hour, 10)
			b.must(err)
			b.expect("forgotten before and after", fmt.Sprint(early, due), "0 1")
			second, err := b.Store.Create(b.ctx, item)
			b.must(err)
			b.expect("existed, another row", fmt.Sprint(second[0].Existed, second[0].ID != first[0].ID), "false true")
		}},
		{"a key is forgotten by its own age, after a step of the clock back, too", func(b *fixture) {
			create := func(key string) execution.ID {
				created, err := b.Store.Create(b.ctx, []store.NewExecution{{ActionRef: "shell.echo", IdempotencyKey: key}})
				b.must(err)
				return created[0].ID
			}
			younger := create("k1")
			b.Advance(-time.Minute)
			older := create("k2")
			b.Advance(30 * time.Second)
			n, err := b.Store.ForgetKeys(b.ctx, 20*time.Second, 10)
			b.must(err)
			b.expect("forgotten, and the keys", fmt.Sprintf("%d %q %q", n, b.readRow(younger).IdempotencyKey, b.readRow(older).IdempotencyKey), `1 "k1" ""`)
		}},
	}
}
