package mutant

import (
	"context"
	"sync/atomic"
	"time"

	"handoff/core/broker"
	"handoff/core/telemetry"
)

// This file plants alerts that watch the wrong figure.

func init() {
	registerMutants(
		Mutant{
			Name: "depth-counts-rows", Source: "D26", Expected: 15, Scenario: "dead-letters-unattended",
			About:    "the number of stored dead letters is reported as the depth of the dead letter queue, so no alert shows messages that its handler never stored",
			Recorder: func(p Process, r telemetry.Recorder) telemetry.Recorder { return &rowDepthRecorder{Recorder: r, p: p} },
		},
		Mutant{
			Name: "unattended-untold", Source: "D26", Expected: 15, Scenario: "dead-letters-unattended",
			About: "the dead letter handler counts as alive because its task runs; no executor asks the broker whether the queue has a consumer",
			Recorder: changeFigures("reported a consumer of the dead letter queue that the broker does not know", func(f telemetry.Figure, v int64) (int64, bool) {
				if f == telemetry.DeadLetterQueueConsumers {
					v = max(v, 1)
				}
				return v, true
			}),
		},
		Mutant{
			Name: "canaries-counted", Source: "D26", Expected: 15, Scenario: "executors-start-often",
			About: "the dead letter handler does not distinguish canaries from messages that died: each start of an executor leaves dead letters that no operator can settle sensibly",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				if p.Worker {
					return b
				}
				return &sessionWrapper{b, func(s broker.Session) broker.Session {
					return &deliveryChangeSession{Session: s, change: func(d *broker.Delivery) {
						if d.Envelope.Type == broker.DeadLetterCanary {
							d.Envelope.Type = broker.ExecutionRequested
							p.Acted("treated a canary as a message that died")
						}
					}}
				}}
			},
		},
		Mutant{
			Name: "canary-at-start-only", Source: "D17", Expected: 15, Scenario: "dead-letter-path-broken",
			About: "the dead letter path is tested when an executor starts and never again",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				if p.Worker {
					return b
				}
				flown := false
				return &sessionWrapper{b, func(s broker.Session) broker.Session { return &oneCanarySession{s, p, &flown} }}
			},
		},
		Mutant{
			Name: "every-failure-is-the-workers", Source: "D59", Expected: 15, Scenario: "retries-exhausted",
			About:    "failures are counted without their own reasons, so one user's broken action looks like a platform that loses work",
			Recorder: func(p Process, r telemetry.Recorder) telemetry.Recorder { return &relabelRecorder{r, p} },
		},
		Mutant{
			Name: "waiting-is-handoff", Source: "D59", Expected: 15, Scenario: "work-behind-full-workers",
			About:    "a dispatch that waits behind a full worker counts as a slow handoff, so a long queue raises the alarm of a broken message path",
			Recorder: func(p Process, r telemetry.Recorder) telemetry.Recorder { return &handoffWaitRecorder{r, p} },
		},
		Mutant{
			Name: "workers-report-for-executors", Source: "D59", Expected: 15, Scenario: "no-executors",
			About: "workers report how old their values are, so no alert shows that the executors, whose figure it is, are missing",
			Recorder: func(p Process, r telemetry.Recorder) telemetry.Recorder {
				if !p.Worker {
					return r
				}
				return &foreignFigureRecorder{r, p}
			},
		},
		Mutant{
			Name: "timed-from-delivery", Source: "D59", Expected: 15, Scenario: "slow-handoffs",
			About:    "a worker measures the handoff only from the delivery of the message, so no alert shows that messages are slow",
			Recorder: func(p Process, r telemetry.Recorder) telemetry.Recorder { return &deliveryTimeRecorder{r, p} },
		},
		Mutant{
			Name: "failures-without-reasons", Source: "D59", Expected: 15, Scenario: "work-lost-with-workers",
			About:    "failures are counted without their reasons, so no alert shows that the platform loses work",
			Recorder: func(p Process, r telemetry.Recorder) telemetry.Recorder { return &noReasonRecorder{r, p} },
		},
		Mutant{
			Name: "last-values-stay", Source: "D62", Expected: 15, Scenario: "database-away-for-long",
			About:    "an executor that can't reach the database shows its last values, so all workers look live while nothing can be known",
			Recorder: func(p Process, r telemetry.Recorder) telemetry.Recorder { return &staleFigureRecorder{r, p} },
		},
		Mutant{
			Name: "values-look-fresh", Source: "D62", Expected: 15, Scenario: "database-away-for-long",
			About: "the age of the shown values counts the time since the last look, whether or not it was answered, so no alert shows that the database is away",
			Recorder: changeFigures("reported as fresh what the source has not said", func(f telemetry.Figure, v int64) (int64, bool) {
				return min(v, int64(telemetry.SampleInterval)), f == telemetry.SampleAge && v > int64(telemetry.SampleInterval)
			}),
		},
		Mutant{
			Name: "blocked-untold", Source: "D62", Expected: 15, Scenario: "broker-holds-publishers-back",
			About: "an executor does not say that the broker holds back what it publishes, so no alert shows why nothing starts",
			Recorder: changeFigures("reported a broker that takes everything", func(f telemetry.Figure, v int64) (int64, bool) {
				if f == telemetry.BrokerBlocked {
					v = 0
				}
				return v, true
			}),
		},
	)
}

// rowDepthRecorder reports the number of stored rows as the depth of the broker's queue.
type rowDepthRecorder struct {
	telemetry.Recorder
	p     Process
	depth atomic.Int64
}

// Set implements telemetry.Recorder.
func (r *rowDepthRecorder) Set(f telemetry.Figure, v int64, l telemetry.Labels) {
	switch f {
	case telemetry.DeadLetterQueueMessages:
		r.depth.Store(v)
		return
	case telemetry.DeadLettersOpen:
		if v != r.depth.Load() {
			r.p.Acted("reported the stored dead letters as the depth of the dead letter queue")
		}
		r.Recorder.Set(telemetry.DeadLetterQueueMessages, v, l)
	default:
	}
	r.Recorder.Set(f, v, l)
}

// oneCanarySession reports every canary after the first as confirmed, although no queue took it.
type oneCanarySession struct {
	broker.Session
	p     Process
	flown *bool
}

// Publish implements broker.Session.
func (o *oneCanarySession) Publish(ctx context.Context, ms []broker.Message) []broker.Outcome {
	outcomes := o.Session.Publish(ctx, ms)
	for i := range ms {
		if ms[i].Envelope.Type == broker.DeadLetterCanary && outcomes[i] == broker.Returned && *o.flown {
			outcomes[i] = broker.Confirmed
			o.p.Acted("treated a canary that no queue took as confirmed")
		}
		*o.flown = *o.flown || ms[i].Envelope.Type == broker.DeadLetterCanary
	}
	return outcomes
}

// relabelRecorder reports changes of a status with another reason.
type relabelRecorder struct {
	telemetry.Recorder
	p Process
}

// Add implements telemetry.Recorder.
func (r *relabelRecorder) Add(f telemetry.Figure, n int64, l telemetry.Labels) {
	const blamed = "worker_unavailable"
	if f == telemetry.Transitions && l[1] == "failed" && l[3] != blamed {
		r.p.Acted("counted a failure because of " + l[3] + " as one because of " + blamed)
		l[3] = blamed
	}
	r.Recorder.Add(f, n, l)
}

// handoffWaitRecorder reports the whole time in status scheduled as the duration of the handoff.
type handoffWaitRecorder struct {
	telemetry.Recorder
	p Process
}

// Observe implements telemetry.Recorder.
func (h *handoffWaitRecorder) Observe(f telemetry.Figure, d time.Duration, l telemetry.Labels) {
	if f == telemetry.StageSeconds {
		switch l[0] {
		case telemetry.StageHandoff:
			return
		case "scheduled":
			h.p.Acted("reported the whole time in scheduled as the handoff")
			h.Recorder.Observe(f, d, telemetry.Labels{telemetry.StageHandoff})
		}
	}
	h.Recorder.Observe(f, d, l)
}

// foreignFigureRecorder reports, from workers, a figure that only executors have.
type foreignFigureRecorder struct {
	telemetry.Recorder
	p Process
}

// Add implements telemetry.Recorder.
func (ffr *foreignFigureRecorder) Add(f telemetry.Figure, n int64, l telemetry.Labels) {
	ffr.p.Acted("reported that its values are fresh, which only executors can")
	ffr.Recorder.Set(telemetry.SampleAge, 0, telemetry.Labels{telemetry.SourceDatabase})
	ffr.Recorder.Add(f, n, l)
}

// staleFigureRecorder keeps showing figures that their source stopped reporting long ago.
type staleFigureRecorder struct {
	telemetry.Recorder
	p Process
}

// Drop implements telemetry.Recorder.
func (s *staleFigureRecorder) Drop(f telemetry.Figure, series ...telemetry.Labels) {
	if len(series) > 0 {
		s.Recorder.Drop(f, series...)
		return
	}
	s.p.Acted("kept its last values, although their source has not answered")
}

// deliveryTimeRecorder measures handoffs only from the delivery on.
type deliveryTimeRecorder struct {
	telemetry.Recorder
	p Process
}

// Observe implements telemetry.Recorder.
func (dtr *deliveryTimeRecorder) Observe(f telemetry.Figure, d time.Duration, l telemetry.Labels) {
	if f == telemetry.StageSeconds && l[0] == telemetry.StageHandoff && d > time.Millisecond {
		dtr.p.Acted("left the time before the delivery out of a handoff")
		d = time.Millisecond
	}
	dtr.Recorder.Observe(f, d, l)
}

// noReasonRecorder reports failures without their reasons.
type noReasonRecorder struct {
	telemetry.Recorder
	p Process
}

// Add implements telemetry.Recorder.
func (nrr *noReasonRecorder) Add(f telemetry.Figure, n int64, l telemetry.Labels) {
	if f == telemetry.Transitions && l[3] != "" {
		nrr.p.Acted("counted a change of a status without its reason, " + l[3])
		l[3] = ""
	}
	nrr.Recorder.Add(f, n, l)
}
