package executor

import (
	"context"
	"strconv"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
)

// A message's fixed cost far exceeds that of its content. So a pass sends the rows for one worker in blocks:
// messages of several dispatches, each with its own id and epoch. Each row of a block has the same guarantees
// as a single dispatch, because the broker stores, delivers, returns and kills a message as a whole:
//
//   - A confirm, a return, a refusal or a missing answer applies to every row in it.
//   - The worker acknowledges it when all its rows are claimed. If it can't, the dead letter
//     handler judges each row.
//   - No worker gets more rows than without blocks: the dispatch of each row is committed under the
//     limit of its worker.

// block holds the rows that one message carries, as indexes into a list.
type block struct {
	incarnation execution.Incarnation
	timeout     time.Duration
	rows        []int
	bytes       int
}

// sendDispatches publishes dispatches and returns, for each, the broker's answer to its message. blocks
// reports whether an incarnation can read messages of several dispatches; nil means that none can.
func (s *Service) sendDispatches(rows []execution.Execution, blocks func(execution.Incarnation) bool) []broker.Outcome {
	packed := packBlocks(rows, s.config.Executor.DispatchesPerMessage, blocks)
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

// packBlocks puts rows into messages of at most `most` dispatches. The rows of a message go to the same
// incarnation and have the same dispatch timeout, so they expire together. When large parameters fill a
// message, the rest go into the next one.
func packBlocks(rows []execution.Execution, most int, blocks func(execution.Incarnation) bool) []*block {
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

// dispatchMessage builds the message for the rows at the indexes in `these` (at least one), in the oldest
// version that can carry them. A block's id combines the id of its first dispatch and the number of others.
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
