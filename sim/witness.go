package sim

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"handoff/chaos/invariant"
	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
	"handoff/core/telemetry"
	"handoff/sim/kernel"
)

// witness observes how the parts of the processes behave: which of their calls fail, what they log, when they
// wait, and which contexts they hold while they wait. It reports this to the rules that judge conduct. It is
// below the mutants, so it sees the real calls. It does not change the run.
type witness struct {
	k     *kernel.Kernel
	rules *invariant.Conduct
}

func newWitness(k *kernel.Kernel, rules *invariant.Conduct) *witness {
	if rules == nil {
		return nil
	}
	return &witness{k: k, rules: rules}
}

func partOf(t *kernel.Task) invariant.Part {
	return invariant.Part{Process: t.Process().Name(), Name: t.Name(), Task: t.ID()}
}

// eventTask returns the task that causes the current event, or nil if there is none or it is dying.
func (w *witness) eventTask() *kernel.Task {
	if w.k.Dying() {
		return nil
	}
	return w.k.Current()
}

// reportCall reports the outcome of each call of a process. call is the name of its method.
func (w *witness) reportCall(ctx context.Context, call string, err error) {
	if err == nil && !w.rules.AnyFailing() {
		return
	}
	t := w.eventTask()
	if err != nil && t != nil && t.Process().Name() != client {
		w.reportUseAfterEnd(ctx, "calls")
	}
	switch {
	case t == nil || t.Process().Name() == client:
	case err == nil:
		if w.rules.Failing(t.ID()) {
			w.rules.CallAnswered(partOf(t), ctx, call)
		}
	case errors.Is(err, context.Canceled):
		// A call that its own task cancelled has not failed. But if its context had ended before, the call
		// came too late.
		if of := t.Held(); of.Ended == ctx {
			w.rules.CalledTooLate(partOf(t), call, of.EndedAt)
		}
	case errors.Is(err, store.ErrLost), errors.Is(err, store.ErrSuperseded), errors.Is(err, store.ErrLeaseOver):
		// These errors are answers, not failures.
	default:
		w.rules.CallFailed(partOf(t), ctx, call, err.Error(), errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome))
	}
}

// reportEmptyCall reports a process's call with an empty list of items.
func (w *witness) reportEmptyCall(call string) {
	if t := w.eventTask(); t != nil && t.Process().Name() != client {
		w.rules.NamesNothing(partOf(t), call)
	}
}

// reportProbe reports the outcome of each probe of a health endpoint.
func (w *witness) reportProbe(by *kernel.Process, url string, err error) {
	if w != nil && w.eventTask() != nil {
		w.rules.Probed(by, by.Name(), url, w.k.Now(), err != nil)
	}
}

// wrapHost wraps the machine of a process.
func (w *witness) wrapHost(p *process, h host.Host) host.Host {
	if w == nil {
		return h
	}
	concurrency := 0
	if p.worker != nil {
		concurrency = p.effectiveConfig().Worker.Concurrency
	}
	return &seenHost{Host: h, w: w, worker: p.worker != nil, concurrency: concurrency, tasks: 1}
}

// seenHost is a machine that reports its tasks, waits and contexts.
type seenHost struct {
	host.Host
	w           *witness
	worker      bool
	concurrency int
	tasks       int
}

// Go implements host.Host.
func (s *seenHost) Go(name string, run func()) host.Task {
	s.tasks++
	if t := s.w.eventTask(); t != nil {
		s.w.rules.Starts(invariant.Part{Process: t.Process().Name(), Name: name}, s.worker, s.concurrency, s.tasks)
	}
	return s.Host.Go(name, func() {
		run()
		s.tasks--
		s.w.reportTaskEnd()
	})
}

// reportTaskEnd reports that the current task ends on its own.
func (w *witness) reportTaskEnd() {
	if w == nil {
		return
	}
	t := w.eventTask()
	if t == nil {
		return
	}
	of := t.Held()
	w.rules.Ends(partOf(t), of.Limited+of.Plain)
}

// noteContextEnd records that a wait of the current task has ended because its context ended.
func (w *witness) noteContextEnd(ctx context.Context, err error) {
	if err == nil || ctx.Err() == nil {
		return
	}
	if t := w.eventTask(); t != nil {
		t.Noted.Over, t.Noted.OverAt = ctx, w.k.Now()
	}
}

// reportUseAfterEnd reports that the current task uses a context whose end it has already observed.
func (w *witness) reportUseAfterEnd(ctx context.Context, what string) {
	if t := w.eventTask(); t != nil && t.Noted.Over == ctx {
		w.rules.GoesOn(partOf(t), what, t.Noted.OverAt)
	}
}

// reportWait reports that the current task begins to wait under a context.
func (w *witness) reportWait(ctx context.Context) {
	t := w.eventTask()
	if t == nil {
		return
	}
	if t.Noted.Over == ctx {
		w.rules.GoesOn(partOf(t), "waits", t.Noted.OverAt)
	}
	t.Noted.Waited = w.k.Now()
	of := t.Held()
	if of.Limited+of.Plain == 0 && !w.rules.AnyFailing() {
		return
	}
	if t.Holds(ctx) {
		of.Limited--
	}
	if of.Limited+of.Plain > 0 || w.rules.Failing(t.ID()) {
		w.rules.Waits(partOf(t), of.Limited, of.Plain)
	}
}

// Sleep implements host.Host.
func (s *seenHost) Sleep(ctx context.Context, d time.Duration) error {
	s.w.reportWait(ctx)
	err := s.Host.Sleep(ctx, d)
	s.w.noteContextEnd(ctx, err)
	return err
}

// NewSignal implements host.Host.
func (s *seenHost) NewSignal() host.Signal { return &seenSignal{s.Host.NewSignal(), s.w} }

type seenSignal struct {
	host.Signal
	w *witness
}

// Wait implements host.Signal.
func (s *seenSignal) Wait(ctx context.Context, d time.Duration) (bool, error) {
	s.w.reportWait(ctx)
	set, err := s.Signal.Wait(ctx, d)
	s.w.noteContextEnd(ctx, err)
	return set, err
}

// WithCancel implements host.Host.
func (s *seenHost) WithCancel(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := s.Host.WithCancel(parent)
	if s.w.eventTask() != nil {
		s.w.k.Watch(ctx, false)
	}
	return ctx, cancel
}

// WithTimeout implements host.Host.
func (s *seenHost) WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := s.Host.WithTimeout(parent, d)
	if s.w.eventTask() != nil {
		s.w.k.Watch(ctx, true)
	}
	return ctx, cancel
}

// wrapRecorder wraps the recorder of a process.
func (w *witness) wrapRecorder(r telemetry.Recorder) telemetry.Recorder {
	if w == nil {
		return r
	}
	return &seenRecorder{r, w}
}

type seenRecorder struct {
	telemetry.Recorder
	w *witness
}

// Add implements telemetry.Recorder.
func (s *seenRecorder) Add(f telemetry.Figure, n int64, l telemetry.Labels) {
	switch f {
	case telemetry.LoopRuns:
		if t := s.w.eventTask(); t != nil {
			s.w.rules.Counted(partOf(t), l[0], l[1] == "failed")
		}
	case telemetry.LogLinesSuppressed:
		if t := s.w.eventTask(); t != nil {
			s.w.rules.Suppressed(partOf(t))
		}
	default:
	}
	s.Recorder.Add(f, n, l)
}

// newLogger returns a logger that reports lines about errors and passes all lines on to h.
func (w *witness) newLogger(h slog.Handler) *slog.Logger {
	if w == nil {
		return slog.New(h)
	}
	return slog.New(&seenLog{h, w})
}

type seenLog struct {
	slog.Handler
	w *witness
}

// Enabled implements slog.Handler. It is also true while a part must log a failure.
func (s *seenLog) Enabled(ctx context.Context, level slog.Level) bool {
	return s.wantsLevel(level) || s.Handler.Enabled(ctx, level)
}

func (s *seenLog) wantsLevel(level slog.Level) bool {
	if level < slog.LevelInfo {
		return false
	}
	t := s.w.eventTask()
	return t != nil && (level >= slog.LevelWarn || s.w.rules.Failing(t.ID()))
}

// Handle implements slog.Handler.
func (s *seenLog) Handle(ctx context.Context, r slog.Record) error {
	if s.wantsLevel(r.Level) {
		line := invariant.Line{Text: r.Message, Warns: r.Level >= slog.LevelWarn}
		carries := false
		r.Attrs(func(a slog.Attr) bool {
			switch a.Key {
			case "error":
				carries, line.Error = true, a.Value.String()
				line.Empty = line.Error == "" || line.Error == "<nil>"
			case "execution":
				line.Execution = execution.ID(a.Value.Int64())
			case "epoch":
				line.Epoch = execution.Epoch(a.Value.Int64())
			case "outcome":
				line.Outcome = a.Value.String()
			case "url":
				line.URL = a.Value.String()
			case "reachable":
				carries, line.Probe, line.Reachable = true, true, a.Value.Kind() == slog.KindBool && a.Value.Bool()
			case "since_heartbeat":
				carries, line.PassedOver, line.Waited = true, true, s.w.eventTask().Noted.Waited
			default:
			}
			return line.Error == ""
		})
		if carries {
			s.w.rules.Logged(partOf(s.w.eventTask()), line)
		}
		if line.Execution != 0 {
			s.w.rules.Says(partOf(s.w.eventTask()), line)
		}
	}
	if !s.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return s.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (s *seenLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &seenLog{s.Handler.WithAttrs(attrs), s.w}
}

// WithGroup implements slog.Handler.
func (s *seenLog) WithGroup(name string) slog.Handler {
	return &seenLog{s.Handler.WithGroup(name), s.w}
}
