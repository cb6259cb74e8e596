package live

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"handoff/chaos/fault"
)

// This file is what the live world does inside RabbitMQ, by rabbitmqctl eval.

// evaluate runs Erlang in the broker, which has to come to ok.
func (w *world) evaluate(what, expression string) error {
	ctx, cancel := w.within()
	defer cancel()
	out, err := w.sandbox.servers.RabbitMQ.Ctl(ctx, "eval", expression)
	if err == nil && strings.TrimSpace(out) != "ok" {
		err = fmt.Errorf("the broker said %q", out)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// ofQueue is Erlang that does something to the process of a queue, if there is such a queue.
func (w *world) ofQueue(queue, do string) string {
	return fmt.Sprintf(`case rabbit_amqqueue:lookup(rabbit_misc:r(<<%q>>, queue, <<%q>>)) of {ok, Q} -> %s; _ -> ok end.`, w.mq.Vhost, queue, do)
}

// SuspendQueue implements fault.StuckQueues: the process of the queue's leader is suspended. A fault that finds its queue
// can't tell what it keeps back, so it counts as touched.
func (w *world) SuspendQueue(x *fault.Injection, queue string) (func(), error) {
	if err := w.evaluate("suspending queue "+queue, w.ofQueue(queue, "sys:suspend(amqqueue:get_pid(Q))")); err != nil {
		return nil, err
	}
	w.suspended(queue, true)
	x.Touch(fault.Touched{Queue: queue})
	return func() {
		// Suspended twice or gone meanwhile: a process that goes on is not asked anything else.
		x.Fail(w.evaluate("resuming queue "+queue, w.ofQueue(queue, "sys:resume(amqqueue:get_pid(Q))")))
		w.suspended(queue, false)
	}, nil
}

// suspendedQueues are those whose processes are suspended: they answer no questions.
type suspendedQueues struct {
	mu sync.Mutex
	n  map[string]int
}

func (w *world) suspended(queue string, on bool) {
	w.stuck.mu.Lock()
	defer w.stuck.mu.Unlock()
	if w.stuck.n == nil {
		w.stuck.n = make(map[string]int)
	}
	if w.stuck.n[queue]--; on {
		w.stuck.n[queue] += 2
	}
	if w.stuck.n[queue] <= 0 {
		delete(w.stuck.n, queue)
	}
}

// hanging says that some queue is suspended.
func (w *world) hanging() bool {
	w.stuck.mu.Lock()
	defer w.stuck.mu.Unlock()
	return len(w.stuck.n) > 0
}

// timesOut is Erlang for whether a consumer of a type of queues has a timeout: from 4.3 on the queues have it, which then
// take an argument for it. Classic queues of 4.3 have none.
const timesOut = `rabbit_misc:version_compare(rabbit_misc:version(), "4.3.0", lt) orelse
	lists:member(<<"x-consumer-timeout">>, maps:get(consumer_arguments, rabbit_%s_queue:capabilities(), []))`

// hasConsumerTimeout returns an error where the broker has no consumer timeout for a type of queues.
func (w *world) hasConsumerTimeout(queueType string) error {
	const without = "the broker has no consumer timeout for %s queues (RabbitMQ 4.3 gave it to quorum queues alone), so that it can't be set"
	return w.evaluate("setting the broker's consumer timeout",
		fmt.Sprintf("case "+timesOut+" of true -> ok; false -> %q end.", queueType, fmt.Sprintf(without, queueType)))
}

// SetConsumerTimeout implements fault.ConsumerTimeouts. A channel reads both settings when it is opened, and from 4.3 on a
// quorum queue reads the first when a consumer begins, so all connections end once, now and when the settings are as before.
func (w *world) SetConsumerTimeout(x *fault.Injection, after time.Duration) (func(), error) {
	if err := w.hasConsumerTimeout(w.config.MessageQueue.RabbitMQ.QueueType); err != nil {
		return nil, err
	}
	set := func(timeout, tick time.Duration) error {
		return w.evaluate("setting the broker's consumer timeout", fmt.Sprintf(
			"application:set_env(rabbit, consumer_timeout, %d), application:set_env(rabbit, channel_tick_interval, %d).", timeout.Milliseconds(), tick.Milliseconds()))
	}
	again := func() error {
		for _, p := range w.all() {
			l := p.links[fault.Broker]
			l.Down()
			if err := l.Up(); err != nil {
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

// deadLetterWorkers is Erlang for the processes that move dead letters, one for each quorum queue.
const deadLetterWorkers = `[P || {_, P, _, _} <- supervisor:which_children(rabbit_fifo_dlx_sup), is_pid(P)]`

// deadLetterPrefetch is the setting by which such a process takes nothing, if it is 0, and RabbitMQ's own value. It has to
// be set at all times: without it each process that is started dies, and soon RabbitMQ starts none any more.
const (
	deadLetterPrefetch  = `application:set_env(rabbit, dead_letter_worker_consumer_prefetch, %d)`
	usualDeadLetterTake = 32
)

// StopDeadLettering implements fault.DeadLettering: the processes that move dead letters are suspended, and those that are
// started meanwhile, for new queues, take nothing. At the end the latter are started anew, one after the other, while the
// run goes on: RabbitMQ ends dead lettering for good if two of them die within five seconds.
func (w *world) StopDeadLettering(x *fault.Injection) (func(), error) {
	err := w.evaluate("stopping dead lettering",
		fmt.Sprintf(deadLetterPrefetch, 0)+", persistent_term:put(handoff_dead_letters, Suspended = "+deadLetterWorkers+"), "+
			"[sys:suspend(P) || P <- Suspended], ok.")
	if err != nil {
		return nil, err
	}
	x.Touch(fault.Touched{Process: fault.Broker})
	return func() {
		x.Fail(w.evaluate("starting dead lettering again",
			fmt.Sprintf(deadLetterPrefetch, usualDeadLetterTake)+", Suspended = persistent_term:get(handoff_dead_letters), [catch sys:resume(P) || P <- Suspended], "+
				"Started = "+deadLetterWorkers+" -- Suspended, spawn(fun() -> [begin exit(P, kill), timer:sleep(6000) end || P <- Started] end), ok."))
	}, nil
}
