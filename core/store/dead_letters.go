package store

import (
	"strings"
	"time"
	"unicode/utf8"

	"handoff/core/execution"
)

// DeadLetter is a message that died, kept for inspection for message_queue.rabbitmq.dead_letter.ttl_ms
// (defect D26: the queue itself is no archive, its depth would say nothing).
type DeadLetter struct {
	// Key is zero when the message could not be read.
	Key execution.Key
	// Queue is where the message died, and Reason why: x-death's reason, or "malformed".
	Queue  string
	Reason string
	// ActionRef and Worker are the action and the worker of the dispatch that died, empty and zero where the message
	// was no dispatch of an execution that exists.
	ActionRef string
	Worker    execution.WorkerID
	// XDeath is the whole x-death header as JSON, nil where the message had none, or one that the broker did not write.
	XDeath []byte
	// Body is the beginning of the body, nil where it could be read, and BodyBytes how long the whole body was; 0 for
	// one that was stored before lengths were.
	Body      []byte
	BodyBytes int
	// Outcome says in a word what the handler did with it.
	Outcome string
	// Open says that nobody has dealt with it: it waits for an operator to discard or replay it.
	Open bool
}

// LongestBody is how many bytes of a body are kept. Whoever can publish decides how long a body is, and 16 KiB are enough
// to see what it was.
const LongestBody = 16 << 10

// The longest texts of a dead letter, in bytes. A queue's name is an AMQP short string.
const (
	longestQueue   = 255
	longestOutcome = 500
	longestXDeath  = 16 << 10
)

// Bounded returns the dead letter as it may be stored: whoever publishes a message decides what is in it, so its body
// and texts are cut, and made such that a database takes them. A cut x-death would be no JSON: one that is too long is
// left out.
func (d DeadLetter) Bounded() DeadLetter {
	d.BodyBytes = max(d.BodyBytes, len(d.Body))
	if len(d.Body) > LongestBody {
		d.Body = append([]byte(nil), d.Body[:LongestBody]...)
	}
	d.Queue, d.Outcome = cut(d.Queue, longestQueue), cut(d.Outcome, longestOutcome)
	if len(d.XDeath) > longestXDeath {
		d.XDeath = nil
	}
	return d
}

// cut returns at most n bytes of a text, without what no database takes.
func cut(text string, n int) string {
	if len(text) > n {
		text = text[:n]
		for !utf8.ValidString(text) && len(text) > n-utf8.UTFMax {
			text = text[:len(text)-1]
		}
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "?"), "\x00", "?")
}

// StoredDeadLetter is a dead letter as it is kept.
type StoredDeadLetter struct {
	ID int64
	DeadLetter
	ReceivedAt time.Time
	// HandledAt is zero for as long as it is open. HandledBy is the actor who settled it, empty where nobody did.
	HandledAt time.Time
	HandledBy string
}

// DeadLetterQuery asks for a page of dead letters, newest first.
type DeadLetterQuery struct {
	// Open asks only for those that nobody has dealt with.
	Open bool
	// Before is the id under which the page begins; 0 for the newest.
	Before int64
	Limit  int
}

// DeadLetterSummaryQuery asks how many dead letters were received, by what. The summary reads every dead letter of the
// window and no other one, so its cost grows with the window alone.
type DeadLetterSummaryQuery struct {
	// Window is how far back it looks, from the database's now; what was received exactly that long ago counts.
	Window time.Duration
	// Every splits the window into periods of that length, which begin at multiples of it since 1970 in UTC; zero for no
	// split. The first and the last period may be cut.
	Every time.Duration
	// ByReason, ByAction and ByWorker say which of these tell groups apart.
	ByReason, ByAction, ByWorker bool
	// Limit is how many groups are returned at most.
	Limit int
}

// DeadLetterGroup counts the dead letters of one group. What the query does not tell apart is empty or zero, and so is
// the action or the worker of what was no dispatch.
type DeadLetterGroup struct {
	// From is when the period begins, zero without periods.
	From      time.Time
	Reason    string
	ActionRef string
	Worker    execution.WorkerID
	Count     int
}

// DeadLetterSummary is what a DeadLetterSummaryQuery finds.
type DeadLetterSummary struct {
	// Since and Until are the window, by the database's clock.
	Since, Until time.Time
	// Total counts the dead letters of the window, those of groups beyond the limit among them.
	Total int
	// Groups come with the latest period first, in a period with the greatest count first, and otherwise by reason, action
	// and worker, in the order of bytes.
	Groups []DeadLetterGroup
	// More says that there are groups beyond the limit.
	More bool
}

// DeadLetterDiscard asks to close open dead letters in bulk. Fields that are empty or zero select all.
type DeadLetterDiscard struct {
	// IDs names them one by one; nil for any.
	IDs []int64
	// Reason, Queue, ActionRef and Worker are those of the dead letter.
	Reason    string
	Queue     string
	ActionRef string
	Worker    execution.WorkerID
	// OlderThan is the least age, by the database's clock.
	OlderThan time.Duration
	// After is the id behind which to begin; 0 for the oldest.
	After int64
	// Limit is how many open dead letters are looked at, those that are not selected among them: so a call is bounded also
	// where hardly anything passes its filter.
	Limit int
	// Actor is who asks, as Reclaim.Actor; it selects nothing.
	Actor string
}

// DeadLettersDiscarded is what came of a DeadLetterDiscard.
type DeadLettersDiscarded struct {
	// Closed is how many were closed.
	Closed int
	// Next is the After of the next call, and More says that it may find more.
	Next int64
	More bool
}

// Survey is what the database counts for the gauges of telemetry.
type Survey struct {
	// Waiting are the executions that have not ended, by status; statuses without any are left out.
	Waiting []Waiting
	// OrchestrationLag is how long ago the oldest execution ended whose end is not handled.
	OrchestrationLag time.Duration
	// DeadLettersOpen counts the dead letters that nobody has dealt with.
	DeadLettersOpen int
	// Slots are the actions that have a limit of concurrency, or whose executions still hold slots of one, in the order
	// of the bytes of their refs.
	Slots []SlotsInUse
	// Unreadable are some of the executions that have not ended, or whose end is not handled, and that this program can't
	// read, MostUnreadable at most, in the order of their ids. UnreadableCount is how many there are, of as many as a
	// survey looks at.
	Unreadable      []UnreadableRow
	UnreadableCount int
}

// MostUnreadable bounds the rows that a survey names.
const MostUnreadable = 20

// UnreadableRow is an execution that says what this program does not know. Somebody wrote it by hand, or a newer program did.
type UnreadableRow struct {
	ID execution.ID
	// Why names the column and what is wrong with it.
	Why string
}

// SlotsInUse is how many concurrency slots the executions of an action hold.
type SlotsInUse struct {
	ActionRef string
	Count     int
}

// Waiting counts the executions in a status, and says how long the first of them has waited. A requested execution
// waits from the moment at which it is due, so a child that waits for its parent is only counted.
type Waiting struct {
	Status execution.Status
	Count  int
	Oldest time.Duration
}
