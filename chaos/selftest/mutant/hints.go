package mutant

import (
	"context"
	"slices"

	"handoff/core/broker"
	"handoff/core/execution"
)

func init() {
	registerMutants(
		Mutant{
			Name: "hints-repeated", Source: "D24", Expected: 26, Scenario: "two-executors",
			About: "a worker repeats each hint that the broker has accepted",
			Broker: changeHints(ofWorkers, func(p Process, ms []broker.Message) []broker.Message {
				p.Acted("sent a hint again")
				return append(ms, ms...)
			}),
		},
		Mutant{
			Name: "hints-swallowed", Source: "D22", Expected: 26, Scenario: "two-executors",
			About: "a worker sends no hints about its claims",
			Broker: changeHints(ofWorkers, func(p Process, ms []broker.Message) []broker.Message {
				return slices.DeleteFunc(ms, func(m broker.Message) bool {
					if m.Envelope.Type != broker.ExecutionStatusChanged || m.Envelope.Changes[0].To != execution.Running {
						return false
					}
					p.Acted("sent no hint of a claim", m.Envelope.Changes[0].Key.ID)
					return true
				})
			}),
		},
		Mutant{
			Name: "hints-vague", Source: "D24", Expected: 26, Scenario: "cancelled-together",
			About: "a worker reports each end as if the execution had been running, even if it was canceling",
			Broker: changeHints(ofWorkers, func(p Process, ms []broker.Message) []broker.Message {
				for i := range ms {
					ms[i].Envelope.Changes = slices.Clone(ms[i].Envelope.Changes)
					for k := range ms[i].Envelope.Changes {
						if c := &ms[i].Envelope.Changes[k]; c.From == execution.Canceling {
							p.Acted("reported it as running", c.Key.ID)
							c.From = execution.Running
						}
					}
				}
				return ms
			}),
		},
		Mutant{
			Name: "cancels-misled", Source: "D60", Expected: 26, Scenario: "cancelled-together",
			About: "the sender of cancellations sends them all to the worker of the first one",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				first := ""
				return changeHints(ofEverybody, func(p Process, ms []broker.Message) []broker.Message {
					for i := range ms {
						if ms[i].Envelope.Type != broker.ExecutionCancel {
							continue
						}
						if first == "" {
							first = ms[i].RoutingKey
						}
						if ms[i].RoutingKey != first {
							p.Acted("sent the request to end it to another worker", ms[i].Envelope.Changes[0].Key.ID)
							ms[i].RoutingKey = first
						}
					}
					return ms
				})(p, b)
			},
		},
	)
}

// hintSession is a session that changes the hints published over it.
type hintSession struct {
	broker.Session
	change func(ms []broker.Message) []broker.Message
}

// Publish implements broker.Session. Hints that change drops seem to be confirmed.
func (h *hintSession) Publish(ctx context.Context, ms []broker.Message) []broker.Outcome {
	outcomes := make([]broker.Outcome, len(ms))
	for i := range ms {
		outcomes[i] = broker.Confirmed
		if len(ms[i].Envelope.Changes) == 0 {
			outcomes[i] = h.Session.Publish(ctx, ms[i:i+1])[0]
			continue
		}
		for _, o := range h.Session.Publish(ctx, h.change(slices.Clone(ms[i:i+1]))) {
			outcomes[i] = o
		}
	}
	return outcomes
}

func changeHints(who func(Process) bool, change func(p Process, ms []broker.Message) []broker.Message) func(Process, broker.Broker) broker.Broker {
	return func(p Process, b broker.Broker) broker.Broker {
		if !who(p) {
			return b
		}
		return &sessionWrapper{b, func(s broker.Session) broker.Session {
			return &hintSession{s, func(ms []broker.Message) []broker.Message { return change(p, ms) }}
		}}
	}
}

func ofWorkers(p Process) bool { return p.Worker }
func ofEverybody(Process) bool { return true }
