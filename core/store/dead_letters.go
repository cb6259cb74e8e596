package store

import (
	"strings"
	"time"
	"unicode/utf8"

	"handoff/core/execution"
)

// DeadLetter is a message that died, kept for inspection for message_queue.rabbitmq.dead_letter.ttl_ms. The
// queue itself is no archive, because its depth would then mean nothing (defect D26).
type DeadLetter struct {
	// Key is zero when the message could not be read.
	Key execution.Key
	// Queue is the queue in which the message died. Reason is x-death's reason, or "malformed".
	Queue  string
	Reason string
	// ActionRef and Worker are the action and the worker of the dispatch that died. They are empty
	// and zero if the message was not the dispatch of an existing execution.
	ActionRef string
	Worker    execution.WorkerID
	// XDeath is the whole x-death header as JSON. It is nil if the message had none, or if the
	// broker did not write it.
	XDeath []byte
	// Body is the beginning of the body, nil if the program could read the body. BodyBytes is the
	// length of the whole body; it is 0 for a dead letter that was stored before lengths were.
	Body      []byte
	BodyBytes int
	// Outcome is a word for what the handler did with the message.
	Outcome string
	// Open reports whether the dead letter waits for an operator to discard or replay it.
	Open bool
}

// LongestBody is the number of bytes kept of a body. Publishers decide how long a body is, and
// 16 KiB are enough to recognise it.
const LongestBody = 16 << 10

// The longest strings of a dead letter, in bytes. A queue's name is an AMQP short string.
const (
	longestQueue   = 255
	longestOutcome = 500
	longestXDeath  = 16 << 10
)

// Bounded returns the dead letter in a form that can be stored. A publisher can send any content, so body and
// strings are truncated and made valid for PostgreSQL. A truncated x-death would not be JSON, so one that is
// too long is left out.
func (d DeadLetter) Bounded() DeadLetter {
	d.BodyBytes = max(d.BodyBytes, len(d.Body))
	if len(d.Body) > LongestBody {
		d.Body = append([]byte(nil), d.Body[:LongestBody]...)
	}
	d.Queue, d.Outcome = truncateText(d.Queue, longestQueue), truncateText(d.Outcome, longestOutcome)
	if len(d.XDeath) > longestXDeath {
		d.XDeath = nil
	}
	return d
}

// truncateText returns at most n bytes of a text, with "?" in place of what PostgreSQL refuses.
func truncateText(text string, n int) string {
	if len(text) > n {
		text = text[:n]
		for !utf8.ValidString(text) && len(text) > n-utf8.UTFMax {
			text = text[:len(text)-1]
		}
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "?"), "\x00", "?")
}

// StoredDeadLetter is a dead letter in the database.
type StoredDeadLetter struct {
	ID int64
	DeadLetter
	ReceivedAt time.Time
	// HandledAt is zero while it is open. HandledBy is the actor who settled it, empty if no person did.
	HandledAt time.Time
	HandledBy string
}

// DeadLetterQuery selects a page of dead letters, newest first.
type DeadLetterQuery struct {
	// Open asks only for open dead letters.
	Open bool
	// The page has only ids below Before; 0 begins with the newest.
	Before int64
	Limit  int
}

// DeadLetterSummaryQuery requests counts of the dead letters received, by group. The summary reads
// exactly the dead letters of the window, so its cost depends on the window alone.
type DeadLetterSummaryQuery struct {
	// Window is how far back the query looks from the database's current time, inclusive.
	Window time.Duration
	// Every splits the window into periods of this length, aligned to its multiples since 1970 in UTC. Zero
	// means no split. The window may cut the first and the last period short.
	Every time.Duration
	// ByReason, ByAction and ByWorker select the fields that distinguish groups.
	ByReason, ByAction, ByWorker bool
	// Limit is the largest number of groups to return.
	Limit int
}

// DeadLetterGroup counts the dead letters of one group. A field that the query does not group by is empty or
// zero. Action and worker are also empty and zero if the messages were not dispatches.
type DeadLetterGroup struct {
	// From is the beginning of the period; zero without periods.
	From      time.Time
	Reason    string
	ActionRef string
	Worker    execution.WorkerID
	Count     int
}

// DeadLetterSummary is the result of a DeadLetterSummaryQuery.
type DeadLetterSummary struct {
	// Since and Until are the window, by the database's clock.
	Since, Until time.Time
	// Total counts all dead letters of the window, including those of groups beyond the limit.
	Total int
	// Groups are ordered by period, latest first; then by count, greatest first; then by reason,
	// action and worker, in byte order.
	Groups []DeadLetterGroup
	// More reports whether the limit has cut off groups.
	More bool
}

// DeadLetterDiscard asks to close open dead letters in bulk. Empty or zero fields select all.
type DeadLetterDiscard struct {
	// IDs selects single dead letters; nil selects any.
	IDs []int64
	// Reason, Queue, ActionRef and Worker select by the dead letter's fields.
	Reason    string
	Queue     string
	ActionRef string
	Worker    execution.WorkerID
	// OlderThan is the minimum age, by the database's clock.
	OlderThan time.Duration
	// The call examines only ids above After; 0 begins with the oldest.
	After int64
	// Limit bounds the open dead letters that the call examines, selected or not, so that a call with a
	// narrow filter is bounded too.
	Limit int
	// Actor is the requester, as in Reclaim.Actor. It selects nothing.
	Actor string
}

// DeadLettersDiscarded is the result of a DeadLetterDiscard.
type DeadLettersDiscarded struct {
	// Closed is the number of dead letters that were closed.
	Closed int
	// Next is the After of the next call. More reports whether the next call may find more.
	Next int64
	More bool
}

// Survey holds the database's counts for the gauges of telemetry.
type Survey struct {
	// Waiting counts the executions that have not ended, by status. Statuses without executions are
	// left out, and so are statuses that this program does not know.
	Waiting []Waiting
	// OrchestrationLag is the age of the oldest end of an execution that is not handled yet.
	OrchestrationLag time.Duration
	// DeadLettersOpen counts the open dead letters.
	DeadLettersOpen int
	// Slots lists the actions that have a concurrency limit, or whose executions still hold slots
	// of a former limit, in the byte order of their refs.
	Slots []SlotsInUse
	// Unclaimed is the longest time that a dispatch has waited at a worker whose heartbeats reported a free
	// slot all that time.
	Unclaimed time.Duration
	// Unfit is the longest time that an execution has been waiting without any fitting worker.
	Unfit time.Duration
	// Held identifies the oldest transaction that was open, anywhere on the database server, and had
	// begun to write; the stream of changes ends before it. 0 if there was none.
	Held uint64
	// Unreadable lists rows that this program can't read, among the executions that have not ended or whose
	// end is not handled: at most MostUnreadable, ordered by id. UnreadableCount is the number that the
	// survey saw; it examines a limited number of rows.
	Unreadable      []UnreadableRow
	UnreadableCount int
}

// MostUnreadable bounds the rows that a survey names.
const MostUnreadable = 20

// UnreadableRow is an execution with a value that this program does not know. A person or a newer program
// wrote it.
type UnreadableRow struct {
	ID execution.ID
	// Why names the column and explains what is wrong with its value.
	Why string
}

// SlotsInUse counts the concurrency slots that the executions of an action hold.
type SlotsInUse struct {
	ActionRef string
	Count     int
}

// Waiting counts the executions in a status. Oldest is the longest time that one of them has waited. A
// requested execution waits since it became due, so a child that waits for its parent is counted, but has no
// age.
type Waiting struct {
	Status execution.Status
	Count  int
	Oldest time.Duration
}
