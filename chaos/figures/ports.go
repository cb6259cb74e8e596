package figures

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// Watch observes the calls and reports of one process, from its start to its end.
type Watch struct {
	j *Judge
	p *process
	// samples reports whether the process is an executor, which samples its gauges. fresh is when it last
	// began a sample or was last stalled; negative while no sample can be expected.
	samples bool
	// ending reports whether the process was asked to stop.
	ending bool
	fresh  time.Duration
	// gauges holds the last reported value of each gauge.
	gauges map[series]int64
	sample sample
	// unanswered is the number of consecutive samples that the database did not answer.
	unanswered int
	// health returns the process's readiness; nil if the judge has no access to it.
	health Health
	// session is the current session, nil before the first.
	session broker.Session
	// connected is when session began.
	connected time.Duration
	// queue is the dead letter queue's state as last read by the process, until it reports that; nil for
	// none.
	queue *broker.QueueState
	// loops holds the counts of each loop, by its name.
	loops map[string]*passCounts
	// clock is the clock of the process's machine, nil if unknown. letter is the dead letter that the process
	// is handling, nil for none.
	clock  Clock
	letter *letter
	// open is the number of open dead letters in the last sample. suspicious is when their number first grew
	// since the last test of the dead letter path, negative if it has not.
	open       int
	suspicious time.Duration
	// hindered is when the process was last stalled.
	hindered time.Duration
}

// sample holds the database's answers to the sampler's current sample.
type sample struct {
	// asked is the context of the sampler's calls, which distinguishes them from the process's other calls.
	asked   context.Context
	survey  store.Survey
	workers []store.WorkerRow
	// answered reports whether the database answered. gaugeSet reports whether a sampled gauge was set since
	// the sampler asked.
	answered, gaugeSet bool
}

// Health reports an executor's readiness.
type Health interface {
	// DeadLetterPath returns why the dead letter path is broken, nil if it works.
	DeadLetterPath() error
	// Connected reports whether a publish would be accepted now.
	Connected() bool
	// Unreadable returns a description of the rows that the executor can't read, empty if there are none.
	Unreadable() string
}

// Ask makes the judge check an executor's readiness at each of its samples. A nil judge does nothing.
func (j *Judge) Ask(process string, h Health) {
	if j != nil {
		j.processNamed(process).current.health = h
	}
}

// Process returns a Watch for a process that starts. samples reports whether it is an executor.
func (j *Judge) Process(name string, samples bool) *Watch {
	p := j.processNamed(name)
	p.current = &Watch{
		j: j, p: p, samples: samples, fresh: j.now(), gauges: make(map[series]int64),
		loops: make(map[string]*passCounts), suspicious: -1,
	}
	return p.current
}

// Recorder returns a recorder that judges the process's reports and forwards them to inner.
func (w *Watch) Recorder(inner telemetry.Recorder) telemetry.Recorder { return &recorderTap{inner, w} }

type recorderTap struct {
	telemetry.Recorder
	w *Watch
}

// Add implements telemetry.Recorder.
func (r *recorderTap) Add(f telemetry.Figure, n int64, l telemetry.Labels) {
	r.w.p.recordCount(f, n, l)
	switch of := r.w.letter; {
	case f == telemetry.LoopRuns:
		r.w.judgePass(l[0])
	case of == nil:
	case f == telemetry.DeadLetters && l[1] == unhandled:
		of.unhandled++
	case f == telemetry.DeadLettered:
		of.named[l]++
	}
	r.Recorder.Add(f, n, l)
}

// Observe implements telemetry.Recorder.
func (r *recorderTap) Observe(f telemetry.Figure, d time.Duration, l telemetry.Labels) {
	r.w.p.recordCount(f, 1, l)
	if d < 0 {
		r.w.recordViolation("%s has measured %v", r.w.j.seriesText(series{f, l}), d)
	}
	switch f {
	case telemetry.LoopSeconds, telemetry.LoopLag:
		r.w.judgePassTime(f, d, l[0])
	case telemetry.DeadLetterSeconds:
		r.w.judgeLetterTime(d)
	default:
	}
	r.Recorder.Observe(f, d, l)
}

// Set implements telemetry.Recorder.
func (r *recorderTap) Set(f telemetry.Figure, v int64, l telemetry.Labels) {
	r.w.gauges[series{f, l}] = v
	r.w.judgeGauge(f, v)
	r.Recorder.Set(f, v, l)
}

// Drop implements telemetry.Recorder.
func (r *recorderTap) Drop(f telemetry.Figure, dropped ...telemetry.Labels) {
	maps.DeleteFunc(r.w.gauges, func(of series, _ int64) bool {
		return of.figure == f && (len(dropped) == 0 || slices.Contains(dropped, of.labels))
	})
	r.Recorder.Drop(f, dropped...)
}

// Store returns a store that records the process's database calls and their answers.
func (w *Watch) Store(inner store.Store) store.Store { return &storeTap{inner, w} }

type storeTap struct {
	store.Store
	w *Watch
}

// trackStep makes a database call, and counts it as open until the process knows its outcome.
func trackStep[T any](s *storeTap, kind string, call func() (T, error)) (T, error) {
	open := s.w.p.open
	open[kind]++
	answer, err := call()
	if !errors.Is(err, store.ErrUnknownOutcome) {
		open[kind]--
	}
	return answer, err
}

// Survey implements store.Executor. Only the sampler calls it, and then Workers, in the same context.
func (s *storeTap) Survey(ctx context.Context) (store.Survey, error) {
	s.w.judgeSample()
	s.w.judgeFreshness()
	s.w.judgeHealth()
	s.w.sample, s.w.fresh = sample{asked: ctx}, s.w.j.now()
	survey, err := s.Store.Survey(ctx)
	s.w.sample.survey = survey
	if err == nil {
		s.w.judgeSuspicion(survey.DeadLettersOpen)
	}
	return survey, err
}

// Workers implements store.Executor.
func (s *storeTap) Workers(ctx context.Context, into []store.WorkerRow) ([]store.WorkerRow, error) {
	rows, err := s.Store.Workers(ctx, into)
	if now := &s.w.sample; err == nil && now.asked == ctx {
		now.workers, now.answered = slices.Clone(rows), true
	}
	return rows, err
}

func (s *storeTap) Create(ctx context.Context, items []store.NewExecution) ([]store.Created, error) {
	return trackStep(s, "create", func() ([]store.Created, error) { return s.Store.Create(ctx, items) })
}

func (s *storeTap) Cancel(ctx context.Context, ids []execution.ID, actor string) ([]store.Cancellation, error) {
	return trackStep(s, "cancel", func() ([]store.Cancellation, error) { return s.Store.Cancel(ctx, ids, actor) })
}

func (s *storeTap) ClaimForScheduling(ctx context.Context, c store.SchedulingClaim) ([]execution.Execution, error) {
	return trackStep(s, "claim for scheduling", func() ([]execution.Execution, error) { return s.Store.ClaimForScheduling(ctx, c) })
}

func (s *storeTap) DispatchDue(ctx context.Context, d store.DueDispatch) (store.DueDispatched, error) {
	return trackStep(s, "dispatch what is due", func() (store.DueDispatched, error) { return s.Store.DispatchDue(ctx, d) })
}

func (s *storeTap) Dispatch(ctx context.Context, by string, ds []store.Dispatch) ([]store.DispatchResult, error) {
	return trackStep(s, "dispatch", func() ([]store.DispatchResult, error) { return s.Store.Dispatch(ctx, by, ds) })
}

func (s *storeTap) Park(ctx context.Context, by string, ps []store.Park) ([]store.Outcome, error) {
	return trackStep(s, "park", func() ([]store.Outcome, error) { return s.Store.Park(ctx, by, ps) })
}

func (s *storeTap) Reclaim(ctx context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	return trackStep(s, "reclaim", func() ([]store.Outcome, error) { return s.Store.Reclaim(ctx, rs) })
}

func (s *storeTap) ObserveReclaims(ctx context.Context, rs []store.Reclaim) ([]store.Observed, error) {
	return trackStep(s, "observe", func() ([]store.Observed, error) { return s.Store.ObserveReclaims(ctx, rs) })
}

func (s *storeTap) ObserveWorkers(ctx context.Context, ws []store.ProbedWorker) ([]bool, error) {
	return trackStep(s, "observe", func() ([]bool, error) { return s.Store.ObserveWorkers(ctx, ws) })
}

func (s *storeTap) MarkQueuesDeleted(ctx context.Context, ws []store.WorkerKey) ([]bool, error) {
	return trackStep(s, "mark queues deleted", func() ([]bool, error) { return s.Store.MarkQueuesDeleted(ctx, ws) })
}

func (s *storeTap) Reap(ctx context.Context, rs []store.Reap) ([]bool, error) {
	return trackStep(s, "reap", func() ([]bool, error) { return s.Store.Reap(ctx, rs) })
}

func (s *storeTap) Orchestrate(ctx context.Context, os []store.Orchestration) ([]store.Orchestrated, error) {
	return trackStep(s, "orchestrate", func() ([]store.Orchestrated, error) { return s.Store.Orchestrate(ctx, os) })
}

func (s *storeTap) SettleChildren(ctx context.Context, chains []execution.ID, most int) ([]store.Settled, error) {
	return trackStep(s, "settle children", func() ([]store.Settled, error) { return s.Store.SettleChildren(ctx, chains, most) })
}

func (s *storeTap) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	return trackStep(s, "heartbeat", func() (store.BeatReply, error) { return s.Store.Heartbeat(ctx, b) })
}

func (s *storeTap) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	return trackStep(s, "claim", func() ([]store.ClaimResult, error) { return s.Store.Claim(ctx, w, cs) })
}

func (s *storeTap) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	return trackStep(s, "finish", func() ([]store.Outcome, error) { return s.Store.Finish(ctx, w, fs) })
}

func (s *storeTap) Release(ctx context.Context, w store.WorkerKey) ([]execution.Key, error) {
	return trackStep(s, "release", func() ([]execution.Key, error) { return s.Store.Release(ctx, w) })
}

// Broker returns a broker that records the outcomes of dispatches, the state of the dead letter queue, and
// the settled dead letters.
func (w *Watch) Broker(inner broker.Broker) broker.Broker { return &brokerTap{inner, w} }

type brokerTap struct {
	broker.Broker
	w *Watch
}

// Connect implements broker.Broker.
func (b *brokerTap) Connect(ctx context.Context) (broker.Session, error) {
	s, err := b.Broker.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &sessionTap{Session: s, w: b.w}, nil
}

type sessionTap struct {
	broker.Session
	w *Watch
	// declared reports whether the session has declared a topology. looked reports whether it read a queue's
	// state before that.
	declared, looked bool
}

// Publish implements broker.Session.
func (s *sessionTap) Publish(ctx context.Context, ms []broker.Message) []broker.Outcome {
	outcomes := s.Session.Publish(ctx, ms)
	for i, o := range outcomes {
		if ms[i].Envelope.Type != broker.ExecutionScheduled {
			continue
		}
		name := ""
		switch o {
		case broker.Confirmed:
			name = "confirmed"
		case broker.Returned:
			name = "returned"
		case broker.Nacked:
			name = "refused"
		default:
			continue
		}
		for range max(1, len(ms[i].Envelope.Dispatches)) {
			s.w.j.expectCount(s.w.p.name, telemetry.Dispatches, name)
		}
	}
	return outcomes
}

// Declare implements broker.Session.
func (s *sessionTap) Declare(ctx context.Context, t broker.Topology) error {
	s.declared = true
	// A session that has read a queue's state before declaring anything is the canary's.
	if !s.looked {
		s.w.session, s.w.connected = s.Session, s.w.j.now()
	}
	return s.Session.Declare(ctx, t)
}

// QueueState implements broker.Session. The test of the dead letter path reads the state of the
// same queue, before it declares anything, on its own session. No figure is reported for that.
func (s *sessionTap) QueueState(ctx context.Context, queue string) (broker.QueueState, error) {
	if !s.declared && !s.looked {
		s.looked = true
		s.w.suspicious = -1
	}
	state, err := s.Session.QueueState(ctx, queue)
	if err == nil && !s.looked && queue == s.w.deadLetters() {
		s.w.queue = &state
	}
	return state, err
}

// Consume implements broker.Session.
func (s *sessionTap) Consume(ctx context.Context, queue string, prefetch int) (broker.Consumer, error) {
	c, err := s.Session.Consume(ctx, queue, prefetch)
	if err != nil {
		return nil, err
	}
	return &consumerTap{c, s.w, queue == s.w.deadLetters()}, nil
}

// deadLetters returns the name of the dead letter queue.
func (w *Watch) deadLetters() string {
	return broker.DeadLetterQueue(w.j.config.MessageQueue.RabbitMQ.DeadLetter.Exchange)
}

// consumerTap consumes any queue. dead reports whether it is the dead letter queue.
type consumerTap struct {
	broker.Consumer
	w    *Watch
	dead bool
}

// Ack implements broker.Consumer. An acknowledged message has been handled and counted.
func (c *consumerTap) Ack(d broker.Delivery) {
	c.Consumer.Ack(d)
	j, name := c.w.j, c.w.p.name
	switch {
	case d.Malformed != nil:
		j.expectCount(name, telemetry.DeadLetters, "", malformed)
		return
	case !c.dead:
		return
	case d.Envelope.Type == broker.DeadLetterCanary:
		j.expectCount(name, telemetry.Canaries)
		return
	}
	c.w.finishLetter(&d)
}

// Receive implements broker.Consumer.
func (c *consumerTap) Receive(ctx context.Context) (broker.Delivery, error) {
	d, err := c.Consumer.Receive(ctx)
	if err == nil && c.dead && d.Malformed == nil && d.Envelope.Type != broker.DeadLetterCanary {
		c.w.beginLetter(&d)
	}
	return d, err
}
