package live

import (
	"fmt"
	"strings"
	"time"

	"handoff/chaos/fault"
)

// This file holds the live world's faults inside RabbitMQ. They use rabbitmqctl eval.

// evalErlang runs an Erlang expression in the broker. Any result other than ok is an error.
func (w *world) evalErlang(what, expression string) error {
	ctx, cancel := w.serverContext()
	defer cancel()
	out, err := w.sandbox.servers.RabbitMQ.Ctl(ctx, "eval", expression)
	if err == nil && strings.TrimSpace(out) != "ok" {
		err = fmt.Errorf("the broker answered %q", out)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// queueExpression returns an Erlang expression that evaluates do on a queue, bound to Q, if the queue exists.
func (w *world) queueExpression(queue, do string) string {
	return fmt.Sprintf(`case rabbit_amqqueue:lookup(rabbit_misc:r(<<%q>>, queue, <<%q>>)) of {ok, Q} -> %s; _ -> ok end.`, w.mq.Vhost, queue, do)
}

// SuspendQueue implements fault.StuckQueues: it suspends the process of the queue's leader. Because the world
// can't know what a suspended queue delays, every such fault counts as touched.
func (w *world) SuspendQueue(x *fault.Injection, queue string) (func(), error) {
	if err := w.evalErlang("suspending queue "+queue, w.queueExpression(queue, "sys:suspend(amqqueue:get_pid(Q))")); err != nil {
		return nil, err
	}
	w.countSuspension(queue, 1)
	x.Touch(fault.Touched{Queue: queue})
	return func() {
		// The expression also returns ok if the process was resumed or has ended.
		x.Fail(w.evalErlang("resuming queue "+queue, w.queueExpression(queue, "sys:resume(amqqueue:get_pid(Q))")))
		w.countSuspension(queue, -1)
	}, nil
}

// countSuspension adds `by` to the queue's number of suspensions. A suspended queue can't be queried.
func (w *world) countSuspension(queue string, by int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stuck == nil {
		w.stuck = make(map[string]int)
	}
	if w.stuck[queue] += by; w.stuck[queue] == 0 {
		delete(w.stuck, queue)
	}
}

// hasSuspendedQueue reports whether any queue is suspended.
func (w *world) hasSuspendedQueue() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.stuck) > 0
}

// timesOut is an Erlang expression that reports whether consumers of a queue type have a timeout. Since 4.3,
// the queues implement the timeout, and their type declares an argument for it. Classic queues of 4.3 have
// none.
const timesOut = `rabbit_misc:version_compare(rabbit_misc:version(), "4.3.0", lt) orelse
	lists:member(<<"x-consumer-timeout">>, maps:get(consumer_arguments, rabbit_%s_queue:capabilities(), []))`

// hasConsumerTimeout returns an error if the broker does not support a consumer timeout for a queue type.
func (w *world) hasConsumerTimeout(queueType string) error {
	const without = "the broker has no consumer timeout for %s queues (RabbitMQ 4.3 gave it to quorum queues alone), so that it can't be set"
	return w.evalErlang("setting the broker's consumer timeout",
		fmt.Sprintf("case "+timesOut+" of true -> ok; false -> %q end.", queueType, fmt.Sprintf(without, queueType)))
}

// SetConsumerTimeout implements fault.ConsumerTimeouts. A channel reads both settings when it opens. Since
// 4.3, a quorum queue reads the first when a consumer subscribes. So all connections are closed once at the
// beginning and once after the settings are restored.
func (w *world) SetConsumerTimeout(x *fault.Injection, after time.Duration) (func(), error) {
	if err := w.hasConsumerTimeout(w.config.MessageQueue.RabbitMQ.QueueType); err != nil {
		return nil, err
	}
	set := func(timeout, tick time.Duration) error {
		return w.evalErlang("setting the broker's consumer timeout", fmt.Sprintf(
			"application:set_env(rabbit, consumer_timeout, %d), application:set_env(rabbit, channel_tick_interval, %d).", timeout.Milliseconds(), tick.Milliseconds()))
	}
	again := func() error {
		for _, p := range w.allProcesses() {
			if err := p.reconnectBroker(); err != nil {
				return err
			}
		}
		return nil
	}
	if err := set(after, time.Second); err != nil {
		return nil, err
	}
	if err := again(); err != nil {
		return nil, err
	}
	x.Touch(fault.Touched{Process: fault.Broker})
	return func() {
		err := set(30*time.Minute, time.Minute)
		if err == nil {
			err = again()
		}
		x.Fail(err)
	}, nil
}

// deadLetterWorkers is an Erlang expression that lists the processes that move dead letters, one for each
// quorum queue.
const deadLetterWorkers = `[P || {_, P, _, _} <- supervisor:which_children(rabbit_fifo_dlx_sup), is_pid(P)]`

// deadLetterPrefetch sets the prefetch of the processes that move dead letters. With 0 they take nothing.
// usualDeadLetterTake is RabbitMQ's default. The setting must never be removed: without it each new process
// dies, and RabbitMQ soon stops starting them.
const (
	deadLetterPrefetch  = `application:set_env(rabbit, dead_letter_worker_consumer_prefetch, %d)`
	usualDeadLetterTake = 32
)

// StopDeadLettering implements fault.DeadLettering. It suspends the processes that move dead letters.
// Processes that start meanwhile, for new queues, take nothing. At the end these are restarted one by one
// during the run, because RabbitMQ ends dead lettering permanently if two of them die within five seconds.
func (w *world) StopDeadLettering(x *fault.Injection) (func(), error) {
	err := w.evalErlang("stopping dead lettering",
		fmt.Sprintf(deadLetterPrefetch, 0)+", persistent_term:put(handoff_dead_letters, Suspended = "+deadLetterWorkers+"), "+
			"[sys:suspend(P) || P <- Suspended], ok.")
	if err != nil {
		return nil, err
	}
	x.Touch(fault.Touched{Process: fault.Broker})
	return func() {
		x.Fail(w.evalErlang("starting dead lettering again",
			fmt.Sprintf(deadLetterPrefetch, usualDeadLetterTake)+", Suspended = persistent_term:get(handoff_dead_letters), [catch sys:resume(P) || P <- Suspended], "+
				"Started = "+deadLetterWorkers+" -- Suspended, spawn(fun() -> [begin exit(P, kill), timer:sleep(6000) end || P <- Started] end), ok."))
	}, nil
}
