package executor

import (
	"context"
	"strconv"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
)

// A message costs the broker, its publisher and its consumer much more than what is in it. So a pass sends what it gives to
// one worker in blocks: messages of several dispatches, each with its own id and epoch. What is true of the dispatch of one
// row stays true of each row of a block, because the broker stores, delivers, returns and kills a message as a whole:
//
//   - A confirm, a return, a refusal or the lack of an answer holds for every row in it.
//   - The worker acknowledges it when all its rows are claimed. If it can't, the dead letter handler judges each row.
//   - Nobody is given more rows than without blocks: the dispatch of each row is committed under the limit of its worker.

// block is the rows that one message carries, by their places in a list.
type block struct {
	incarnation execution.Incarnation
	timeout     time.Duration
	rows        []int
	bytes       int
}

// send publishes dispatches and returns what the broker said of the message of each. blocks says which incarnations read
// messages of several dispatches; nil for none.
func (s *Service) send(rows []execution.Execution, blocks func(execution.Incarnation) bool) []broker.Outcome {
	packed := pack(rows, s.config.Executor.DispatchesPerMessage, blocks)
	messages := make([]broker.Message, len(packed))
	for i, b := range packed {
		messages[i] = s.dispatchMessage(rows, b.rows)
	}
	ctx, cancel := s.host.WithTimeout(context.Background(), s.config.Executor.ConfirmTimeout)
	answers := s.client.Publish(ctx, messages)
	cancel()
	outcomes := make([]broker.Outcome, len(rows))
	for i, b := range packed {
		for _, row := range b.rows {
			outcomes[row] = answers[i]
		}
	}
	return outcomes
}

// pack puts rows into messages of at most so many dispatches. Those of a message go to the same incarnation, and may wait as
// long for their claims: then none of them is too late while another one may still wait. Where large parameters fill a
// message, the next one begins.
func pack(rows []execution.Execution, most int, blocks func(execution.Incarnation) bool) []*block {
	var packed, open []*block
	for i := range rows {
		row := &rows[i]
		d := dispatchOf(row)
		length := d.Length()
		at := 0
		for at < len(open) && (open[at].incarnation != row.Incarnation || open[at].timeout != row.Action.DispatchTimeout) {
			at++
		}
		fits := at < len(open) && len(open[at].rows) < most && open[at].bytes+length <= broker.MaxBlock
		if fits && blocks != nil && blocks(row.Incarnation) {
			open[at].rows, open[at].bytes = append(open[at].rows, i), open[at].bytes+length
			continue
		}
		b := &block{incarnation: row.Incarnation, timeout: row.Action.DispatchTimeout, rows: []int{i}, bytes: length}
		packed = append(packed, b)
		if at < len(open) {
			open[at] = b
		} else {
			open = append(open, b)
		}
	}
	return packed
}

func dispatchOf(row *execution.Execution) broker.Dispatch {
	return broker.Dispatch{
		Key: row.Key(), Worker: row.Worker, Incarnation: row.Incarnation, Action: row.Action, Parameters: row.Parameters,
	}
}

// dispatchMessage is the message of some of the rows, at least one, in the oldest version that can carry them. A block has
// the name of its first dispatch, and how many others it carries.
func (s *Service) dispatchMessage(rows []execution.Execution, these []int) broker.Message {
	first := &rows[these[0]]
	id := strconv.FormatInt(int64(first.ID), 10)
	e := broker.Envelope{
		MessageID: id + "." + strconv.FormatInt(int64(first.Epoch), 10), Type: broker.ExecutionScheduled, CorrelationID: id,
		Timestamp: s.host.Now(), Version: broker.WireVersion,
	}
	if len(these) > 1 {
		e.MessageID += "+" + strconv.Itoa(len(these)-1)
		e.Version, e.CorrelationID = broker.VersionBlock, ""
	}
	for _, i := range these {
		e.Dispatches = append(e.Dispatches, dispatchOf(&rows[i]))
	}
	return broker.Message{Exchange: broker.ExchangeExecutions, RoutingKey: broker.DispatchKey(first.Worker), Envelope: e}
}
