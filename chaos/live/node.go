package live

import (
	"context"
	"fmt"
	"regexp"
	"strconv"

	"handoff/chaos/live/evidence"
)

// startTrace turns on the broker's firehose and starts to read it. The broker turns it off when it restarts.
func (w *world) startTrace(ctx context.Context) error {
	if w.untraced {
		return nil
	}
	vhost := w.mq.Vhost
	if _, err := w.sandbox.servers.RabbitMQ.Ctl(ctx, "eval", fmt.Sprintf("ok = rabbit_trace:start(<<%q>>).", vhost)); err != nil {
		return fmt.Errorf("turning the broker's trace on: %w", err)
	}
	return w.firehose.Listen(w.ctx, w.observeEvent)
}

// askDepths is an Erlang expression that queries the queues themselves, because RabbitMQ's own list of quorum
// queues is some seconds old. It counts ready and unacknowledged messages. It passes module, function and
// arguments by name: the Raft library of RabbitMQ 4.3 accepts no function value, and that of 3.10 accepts both.
const askDepths = `[begin
	{resource, _, _, N} = amqqueue:get_name(Q),
	{N, case amqqueue:get_type(Q) of
		rabbit_quorum_queue -> {ok, {_, V}, _} = ra:leader_query(amqqueue:get_pid(Q), {rabbit_fifo, query_messages_total, []}), V;
		_ -> [{messages, V}] = rabbit_amqqueue:info(Q, [messages]), V
	end}
end || Q <- rabbit_amqqueue:list(<<%q>>), amqqueue:is_durable(Q)].`

var depthEntry = regexp.MustCompile(`\{<<"([^"]+)">>,\s*(\d+)\}`)

// queueDepths counts the messages in each durable queue of the run. It fails if a queue doesn't answer within
// serverWithin.
func (w *world) queueDepths(ctx context.Context) (map[string]int, error) {
	ctx, cancel := context.WithTimeout(ctx, serverWithin)
	defer cancel()
	out, err := w.sandbox.servers.RabbitMQ.Ctl(ctx, "eval", fmt.Sprintf(askDepths, w.mq.Vhost))
	if err != nil {
		return nil, fmt.Errorf("counting messages: %w", err)
	}
	depths := make(map[string]int)
	for _, m := range depthEntry.FindAllStringSubmatch(out, -1) {
		if m[1] != evidence.SinkQueue {
			depths[m[1]], _ = strconv.Atoi(m[2]) // digits
		}
	}
	if len(depths) == 0 {
		return nil, fmt.Errorf("counting messages: rabbitmqctl said %q", out)
	}
	return depths, nil
}
