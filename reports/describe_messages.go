package reports

import (
	"fmt"

	"handoff/chaos/history"
)

// hinted describes one change in a hint.
func hinted(e *history.Event) string {
	what := fmt.Sprintf("told in %s that execution %d, epoch %d, is %s", e.Key, e.Execution, e.Epoch, e.To)
	if e.Count < 0 {
		return what + ", and the broker refused it"
	}
	return what
}

// transport describes what happens to a message.
func (t teller) transport(e *history.Event) string {
	m, q := t.message(e), t.queue(e.Queue)
	switch e.Kind {
	case history.Hinted:
		return hinted(e)
	case history.Published:
		return fmt.Sprintf("published %s to %s", m, plural(e.Count, "queue"))
	case history.PublishReturned:
		return "published " + m + ", but no queue takes it: it was returned"
	case history.Enqueued:
		return "stored " + m
	case history.Delivered:
		return "received " + m + " from " + q
	case history.Acked:
		return "acknowledged " + m
	case history.ConsumerTimedOut:
		if e.Count > 0 {
			return fmt.Sprintf("kept %s from %s unacknowledged for %v, and the queue took it back and cancelled its consumer", m, q, e.Due)
		}
		return fmt.Sprintf("kept %s from %s unacknowledged for %v, and the broker ended its session", m, q, e.Due)
	case history.Requeued:
		return "took back " + m
	case history.Expired:
		return "expired in " + q + poisons(e)
	case history.Rejected:
		return "was rejected in " + q + poisons(e)
	case history.ReturnedTooOften:
		return "was given up in " + q + ", where it came back too often" + poisons(e)
	case history.DeadLettered:
		return fmt.Sprintf("went from %s to %s", q, plural(e.Count, "dead letter queue"))
	case history.Dropped:
		if e.Fault == "" {
			return "was dropped by the broker's rules in " + q
		}
		return "was lost in " + q + " by the fault “" + e.Fault + "”"
	}
	return "did something unknown: " + e.Kind.String()
}

// poisons describes a message that makes the broker give up dead lettering.
func poisons(e *history.Event) string {
	if e.Count == 0 {
		return ""
	}
	return ", and its header breaks dead lettering: the broker creates no queue until it restarts without that message"
}
