package policies

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"handoff/chaos/oracle"
	"handoff/core/broker"
	"handoff/core/execution"
)

// codec asks whether messages are read as they were written, and whether what nobody may send is
// refused.
func (a *asker) codec() {
	e := a.envelope()
	body, err := a.core.Encode(&e)
	if !expect(a, err == nil, true, queues, "may %s be written (%v)", about(&e), err) {
		return
	}
	a.Asked++
	if wrong := a.misread(&e, body); wrong != "" {
		a.wrong(queues, "%s", wrong)
	}
	a.spoilt(body)
	if a.oneIn(3) {
		a.timestamps(e)
	}
	if a.oneIn(3) {
		a.partsOfBlocks(e)
	}
	// One of these takes as long as a hundred others, or a thousand.
	if a.oneIn(20) {
		a.blockBound(e)
	}
	if a.oneIn(200) {
		a.bodyBound(e)
	}
}

func (a *asker) misread(e *broker.Envelope, body []byte) string {
	read, err := a.core.Decode(body)
	return Misread(e, &read, err, func() Readers { return a.core.Readers(body) })
}

// envelope draws a message that may be sent: a hint, a dispatch or a block.
func (a *asker) envelope() broker.Envelope {
	e := broker.Envelope{
		MessageID: pick(a, "executor-1/4", "7.3", "7", strings.Repeat("w", longestName), "ü/€", "a\"b", "a\\b", "tab\tand\x1f"),
		Version:   broker.WireVersion, Timestamp: time.Unix(int64(a.number(0, 1<<32)), int64(a.number(0, 999))*int64(pick(a, time.Nanosecond, time.Microsecond, time.Millisecond))).UTC(),
		Type: pick(a, broker.ExecutionScheduled, broker.ExecutionRequested, broker.ExecutionStatusChanged, broker.ExecutionCompleted, broker.ExecutionCancel, broker.DeadLetterCanary),
	}
	switch e.Type {
	case broker.DeadLetterCanary:
	case broker.ExecutionScheduled:
		for range pick(a, 1, 2, 3) {
			d := a.dispatch()
			if len(e.Dispatches) > 0 {
				d.Worker, d.Incarnation, e.Version = e.Dispatches[0].Worker, e.Dispatches[0].Incarnation, broker.VersionBlock
			}
			e.Dispatches = append(e.Dispatches, d)
		}
		if e.CorrelationID = pick(a, "", "7", strings.Repeat("c", longestName)); len(e.Dispatches) > 1 {
			e.CorrelationID = ""
		}
	default:
		for range pick(a, 1, 2, 5) {
			e.Changes = append(e.Changes, broker.Change{Key: a.key(), From: a.status(), To: a.status(), Handled: a.oneIn(3)})
		}
	}
	return e
}

// key draws the key of an execution, with numbers of 1, 18 and 19 digits among others.
func (a *asker) key() execution.Key {
	const most = 1<<63 - 1
	return execution.Key{
		ID:    execution.ID(pick(a, 1, 9, 10, largestFast, largestFast+1, most, a.number(1, 100_000))),
		Epoch: execution.Epoch(pick(a, 0, 1, 10, largestFast, largestFast+1, most, a.number(0, 100))),
	}
}

func (a *asker) status() execution.Status {
	return execution.Status(a.number(0, execution.Statuses-1)) //nolint:gosec // below the number of statuses
}

func (a *asker) dispatch() broker.Dispatch {
	return broker.Dispatch{
		Key: a.key(), Worker: execution.WorkerID(a.number(0, 40)), Incarnation: execution.Incarnation(a.number(0, 1000)),
		Action: execution.Action{
			Ref: pick(a, "core.echo", "a", "ü\"\\<&>"), Runtime: pick(a, "shell", "a-runtime-with-a-long-name"), Entrypoint: pick(a, "", "echo.sh", "a\tb"),
			Timeout:         pick(a, 0, time.Nanosecond, time.Millisecond, time.Millisecond+1, time.Hour),
			DispatchTimeout: pick(a, 0, 999*time.Microsecond, 5*time.Second), MaxRetries: pick(a, 0, 2, 1<<31-1),
		},
		Parameters: pick(a, nil, []byte("null"), []byte(`{"a": "<b> \u0000"}`), []byte("[1, 2]")),
	}
}

// spoilt asks about bodies that differ in one place from one that Encode wrote. The fast reader reads
// what the careful one reads, or nothing. What stands behind a message makes it unreadable.
func (a *asker) spoilt(body []byte) {
	for range 2 {
		at, other := a.number(0, len(body)-1), pick[byte](a, '"', '\\', '\x01', ' ', '0', '9', '-', ',', '{', '}', ']', 'x', 0xff)
		changed := slices.Clone(body)
		if a.oneIn(2) {
			changed[at] = other
		} else {
			changed = slices.Insert(changed, at, other)
		}
		a.readersAgree(changed)
	}
	a.readersAgree(body[:a.number(0, len(body)-1)])
	behind := slices.Concat(body, []byte(pick(a, "x", "}", ",", "\x00", "{}")))
	_, err := a.core.Decode(behind)
	expect(a, err != nil, true, queues, "is a message refused with something behind it: %.300q", behind)
	a.readersAgree(behind)
}

// readersAgree reads a body with both readers.
func (a *asker) readersAgree(body []byte) {
	a.Asked++
	by := a.core.Readers(body)
	switch {
	case !by.OK:
	case by.Err != nil:
		a.wrong(queues, "the fast reader of hints reads %.300q, and the reader of all messages refuses it: %v", body, by.Err)
	default:
		if d := difference(&by.Careful, &by.Fast); d != "" {
			a.wrong(queues, "the fast reader of hints reads %.300q with %s", body, d)
		}
	}
}

// timestamps asks for the years that a message may have: of four digits, in UTC.
func (a *asker) timestamps(e broker.Envelope) {
	first, last := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	at := pick(a, first, last).Add(time.Duration(a.number(-1, 1)) * time.Hour)
	lawful := !at.Before(first) && at.Before(last)
	e.Timestamp = at
	body, err := a.core.Encode(&e)
	expect(a, err == nil, lawful, queues, "may a message of %v be written (%v)", at, err)
	if err == nil {
		if wrong := a.misread(&e, body); wrong != "" {
			a.wrong(queues, "%s", wrong)
		}
	}
	// Somebody else may write the same moment with an offset, and then in a year of four digits.
	e.Timestamp = first.AddDate(2000, 0, 0)
	if body, err = a.core.Encode(&e); err != nil {
		return // reported above
	}
	zone := time.FixedZone("", 2*int(time.Hour/time.Second))
	if !at.Before(last) {
		zone = time.FixedZone("", -2*int(time.Hour/time.Second))
	}
	foreign := at.In(zone).Format(time.RFC3339)
	body = bytes.Replace(body, []byte("2000-01-01T00:00:00Z"), []byte(foreign), 1)
	if at.In(zone).Year() < 0 || at.In(zone).Year() > 9999 {
		return
	}
	_, err = a.core.Decode(body)
	expect(a, err == nil, lawful, queues, "may a message have the timestamp %s (%v)", foreign, err)
	a.readersAgree(body)
}

// block makes a message a block of n equal dispatches.
func block(e broker.Envelope, n int) broker.Envelope {
	e.Type, e.Version, e.CorrelationID, e.Changes = broker.ExecutionScheduled, broker.VersionBlock, "", nil
	e.Dispatches = slices.Repeat([]broker.Dispatch{{Key: execution.Key{ID: 7, Epoch: 1}, Worker: 1, Incarnation: 2}}, n)
	return e
}

// partsOfBlocks asks what is read of a block whose dispatches can't all be read. With none, the block
// can't be read.
func (a *asker) partsOfBlocks(e broker.Envelope) {
	n := a.number(2, 4)
	e = block(e, n)
	body, err := a.core.Encode(&e)
	if !expect(a, err == nil, true, queues, "may %s be written (%v)", about(&e), err) {
		return
	}
	before, _, _ := bytes.Cut(body, []byte(`"dispatches":[`))
	none := slices.Concat(before, []byte(`"dispatches":[]}}`))
	_, err = a.core.Decode(none)
	expect(a, err != nil, true, queues, "is a block without dispatches refused: %.300q", none)
	bad := a.number(1, n)
	spoilt := bytes.Replace(body, []byte(`"epoch":1`), []byte(`"epoch":-1`), bad)
	read, err := a.core.Decode(spoilt)
	expect(a, err == nil, bad < n, queues, "is a block read of which %d of %d dispatches can't be (%v)", bad, n, err)
	if err == nil {
		expect(a, len(read.Dispatches), n-bad, queues, "how many dispatches are read of a block of which %d of %d can't be", bad, n)
		expect(a, len(read.Unread), bad, queues, "how many dispatches are kept as unread of a block of which %d of %d can't be read", bad, n)
	}
}

// blockBound asks for the largest number of dispatches.
func (a *asker) blockBound(e broker.Envelope) {
	n := oracle.MostDispatches + pick(a, 0, 0, 0, 1)
	e = block(e, n)
	body, err := a.core.Encode(&e)
	expect(a, err == nil, n <= oracle.MostDispatches, queues, "may a block of %d dispatches be written (%v)", n, err)
	if err == nil && a.oneIn(5) {
		read, err := a.core.Decode(body)
		expect(a, len(read.Dispatches), n, queues, "how many dispatches of a block of %d are read (%v)", n, err)
	}
	if n <= oracle.MostDispatches {
		return
	}
	// Nobody writes such a block, so its dispatches are put between those of one that may be written.
	e.Dispatches = e.Dispatches[:2]
	if body, err = a.core.Encode(&e); err != nil {
		return // reported above
	}
	body = bytes.Replace(body, []byte(`"dispatches":[`), []byte(`"dispatches":[`+strings.Repeat("{},", n-2)), 1)
	_, err = a.core.Decode(body)
	expect(a, err != nil, true, queues, "is a block of %d dispatches refused", n)
}

// bodyBound asks for the longest body, written and read.
func (a *asker) bodyBound(e broker.Envelope) {
	e.Type, e.Version, e.Changes = broker.ExecutionScheduled, broker.WireVersion, nil
	e.Dispatches = []broker.Dispatch{{Key: execution.Key{ID: 7, Epoch: 1}, Parameters: []byte(`""`)}}
	body, err := a.core.Encode(&e)
	if err != nil {
		a.wrong(queues, "%s is not written: %v", about(&e), err)
		return
	}
	n := oracle.LongestBody + a.number(0, 1)
	lawful := n <= oracle.LongestBody
	if a.oneIn(2) {
		e.Dispatches[0].Parameters = slices.Concat([]byte(`"`), bytes.Repeat([]byte("x"), n-len(body)), []byte(`"`))
		body, err = a.core.Encode(&e)
		expect(a, err == nil, lawful, queues, "may a body of %d bytes be written (%v)", n, err)
		if err == nil {
			expect(a, len(body), n, queues, "the length of a body with parameters of %d bytes", len(e.Dispatches[0].Parameters))
		}
		return
	}
	body = append(body, bytes.Repeat([]byte(" "), n-len(body))...)
	_, err = a.core.Decode(body)
	expect(a, err == nil, lawful, queues, "may a body of %d bytes be read (%v)", n, err)
}

// packing asks which dispatches share a message, at the bounds of a block: its number of dispatches,
// and their length.
func (a *asker) packing() {
	most := pick(a, 1, 2, 3, 50)
	var rows []execution.Execution
	var due []oracle.Row
	alone := execution.Incarnation(a.number(0, 3))
	lengths, longest := make(map[string]int), make([]byte, oracle.LongestBlock)
	for range a.number(2, 8) {
		row := execution.Execution{
			ID: execution.ID(len(rows) + 1), Epoch: 1, Worker: 1, Incarnation: execution.Incarnation(a.number(1, 2)),
			Action: execution.Action{
				Ref: strings.Repeat("r", a.number(1, 30)), Runtime: strings.Repeat("t", a.number(1, 30)), Entrypoint: strings.Repeat("e", a.number(0, 30)),
				DispatchTimeout: pick(a, 0, 0, 0, time.Second),
			},
		}
		bare := oracle.DispatchLength(&row.Action, 0)
		message := fmt.Sprint(row.Incarnation, row.Action.DispatchTimeout)
		left := oracle.LongestBlock - lengths[message]
		parameters := pick(a, 0, left/2, left-bare-1, left-bare, left-bare+1, oracle.LongestBlock)
		row.Parameters = longest[:max(0, parameters)]
		lengths[message] += oracle.DispatchLength(&row.Action, len(row.Parameters))
		if lengths[message] > oracle.LongestBlock {
			lengths[message] = oracle.DispatchLength(&row.Action, len(row.Parameters))
		}
		rows = append(rows, row)
		due = append(due, oracle.Row{
			Incarnation: row.Incarnation, Timeout: row.Action.DispatchTimeout, Alone: row.Incarnation == alone,
			Length: oracle.DispatchLength(&row.Action, len(row.Parameters)),
		})
	}
	packed := a.core.Pack(rows, most, func(i execution.Incarnation) bool { return i != alone })
	expect(a, fmt.Sprint(packed), fmt.Sprint(oracle.Messages(due, most)), queues,
		"which of these dispatches share a message, with at most %d in one: %+v", most, due)
}
