package mutant

import (
	"context"
	"slices"

	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants cores that ignore that a broker may drop a message which was returned too often (RabbitMQ
// 4).

func init() {
	registerMutants(
		Mutant{
			Name: "delivery-limit-counted", Source: "C15", Expected: 2, Scenario: "comes-back-too-often",
			About: "a dispatch that was returned to its queue too often counts against its worker",
			Store: func(p Process, s store.Store) store.Store {
				if p.Worker {
					return s
				}
				return &returnCountStore{s, p}
			},
		},
		Mutant{
			Name: "delivery-limit-misread", Source: "D19", Expected: 2, Scenario: "comes-back-too-often",
			About: "a dispatch that was returned to its queue too often counts as rejected by its worker",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				if !p.Executor() {
					return b
				}
				return &sessionWrapper{b, func(s broker.Session) broker.Session {
					return &deliveryChangeSession{Session: s, change: func(d *broker.Delivery) {
						if len(d.Deaths) > 0 && d.Deaths[0].Reason == broker.DeathDeliveryLimit {
							p.Acted("treated a message that was returned too often as rejected")
							deaths := append([]broker.Death(nil), d.Deaths...)
							deaths[0].Reason = broker.DeathRejected
							d.Deaths = deaths
						}
					}}
				}}
			},
		},
	)
	registerMade(queuesLimited, deadLettersLimited)
}

// queueLimitSession declares some queues as before RabbitMQ had a delivery limit.
type queueLimitSession struct {
	broker.Session
	p     Process
	which func(queue string) bool
}

// Declare implements broker.Session.
func (qls *queueLimitSession) Declare(ctx context.Context, t broker.Topology) error {
	t.Queues = slices.Clone(t.Queues)
	for i := range t.Queues {
		if q := &t.Queues[i]; q.KeepsReturned && qls.which(q.Name) {
			qls.p.Acted("declared a queue that loses messages that are returned too often")
			q.KeepsReturned = false
		}
	}
	return qls.Session.Declare(ctx, t)
}

// limitQueues plants the mutant into every process: a process that declares less than the existing queue
// would be refused.
func limitQueues(m Mutant, which func(c config.RabbitMQ, queue string) bool) *Mutant {
	m.Broker = func(p Process, b broker.Broker) broker.Broker {
		return &sessionWrapper{b, func(s broker.Session) broker.Session {
			return &queueLimitSession{s, p, func(queue string) bool { return which(p.Config.MessageQueue.RabbitMQ, queue) }}
		}}
	}
	return &m
}

func queuesLimited() *Mutant {
	return limitQueues(Mutant{
		Name: "queues-limited", Source: "D17", Expected: 6, Scenario: "comes-back-too-often",
		About: "queues without a dead letter exchange are declared with the broker's delivery limit, so the broker loses messages that are returned too often",
	}, func(config.RabbitMQ, string) bool { return true })
}

func deadLettersLimited() *Mutant {
	return limitQueues(Mutant{
		Name: "dead-letters-limited", Source: "D17", Expected: 6, Scenario: "comes-back-too-often",
		About: "the dead letter queue is declared with the broker's delivery limit, so the broker loses dead letters that are returned too often",
	}, func(c config.RabbitMQ, queue string) bool {
		return queue == broker.DeadLetterQueue(c.DeadLetter.Exchange)
	})
}

// returnCountStore counts messages that the broker dropped as failures of their worker.
type returnCountStore struct {
	store.Store
	p Process
}

// Reclaim implements store.Store.
func (r *returnCountStore) Reclaim(ctx context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	for i := range rs {
		if rs[i].Cause == store.DeadLettered && rs[i].Reason == execution.WorkerUnavailable && !rs[i].Counts {
			r.p.Acted("counted a dispatch that the broker gave up against its worker", rs[i].Key.ID)
			rs[i].Counts = true
		}
	}
	return r.Store.Reclaim(ctx, rs)
}
