package postgrestest_test

import (
	"time"

	"handoff/core/store"
)

func deadLetterCosts() []costCase {
	return []costCase{
		{"DeadLetters", "the newest", true, func(c *costs, b int) func() error {
			return func() error { return errorOf(c.DeadLetters(c.ctx, store.DeadLetterQuery{Limit: b})) }
		}},
		{"DeadLetters", "open", true, func(c *costs, b int) func() error {
			return func() error { return errorOf(c.DeadLetters(c.ctx, store.DeadLetterQuery{Open: true, Limit: b})) }
		}},
		{"DeadLetter", "", false, func(c *costs, b int) func() error {
			return func() error { _, _, err := c.DeadLetter(c.ctx, c.storeDeadLetter()); return err }
		}},
		{"SettleDeadLetter", "", false, func(c *costs, b int) func() error {
			id := c.storeDeadLetter()
			return func() error { return errorOf(c.SettleDeadLetter(c.ctx, id, "discarded", "ops")) }
		}},
		{"DiscardDeadLetters", "all that are looked at", true, func(c *costs, b int) func() error {
			// With these rows before them, the indexes do not get their second level between two sizes of the
			// batch.
			c.fillDeadLetters(1000, "now()")
			after := c.storeDeadLetter()
			c.fillDeadLetters(b, "null")
			return func() error {
				return errorOf(c.DiscardDeadLetters(c.ctx, store.DeadLetterDiscard{After: after, Limit: b}, "discarded"))
			}
		}},
		{"DiscardDeadLetters", "a filter that nothing passes", true, func(c *costs, b int) func() error {
			return func() error {
				return errorOf(c.DiscardDeadLetters(c.ctx, store.DeadLetterDiscard{Reason: "none", Limit: b}, "discarded"))
			}
		}},
		{"DiscardDeadLetters", "by ids", true, func(c *costs, b int) func() error {
			ids := make([]int64, b)
			for i := range ids {
				ids[i] = c.storeDeadLetter()
			}
			return func() error {
				return errorOf(c.DiscardDeadLetters(c.ctx, store.DeadLetterDiscard{IDs: ids, Limit: b}, "discarded"))
			}
		}},
		{"SummarizeDeadLetters", "", true, func(c *costs, b int) func() error {
			c.execSQL(`insert into dead_letter (queue, reason, outcome, received_at)
				select 'q', 'expired', 'kept', now() + interval '2 days' from generate_series(1, $1::int)`, b)
			return func() error {
				// The window begins behind all other rows, so it contains only the batch.
				return errorOf(c.SummarizeDeadLetters(c.ctx, store.DeadLetterSummaryQuery{Window: -24 * time.Hour, Every: time.Hour, ByReason: true, ByAction: true, ByWorker: true, Limit: 10}))
			}
		}},
	}
}

// storeDeadLetter stores a dead letter.
func (c *costs) storeDeadLetter() (id int64) {
	c.Helper()
	c.must(c.hand.QueryRow(c.ctx, `insert into dead_letter (queue, reason, outcome, received_at) values ('q', 'expired', 'kept', now()) returning id`).Scan(&id))
	return id
}
