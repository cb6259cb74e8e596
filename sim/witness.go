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

// witness watches how the parts of the processes behave: which of their calls fail, what they log,
// when they wait, and what they hold then. It reports this to the rules that judge it. It is below
// the mutants, so it sees a deceived part as it is. It changes nothing: a run is the same with and
// without it.
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

func part(t *kernel.Task) invariant.Part {
	return invariant.Part{Process: t.Process().Name(), Name: t.Name(), Task: t.ID()}
}

// sees returns the task that causes the current event, nil if there is none.
func (w *witness) sees() *kernel.Task {
	if w.k.Dying() {
		return nil
	}
	return w.k.Current()
}

// answered gets the outcome of each call of a process. call is the name of its method.
func (w *witness) answered(ctx context.Context, call string, err error) {
	if err == nil && !w.rules.AnyFailing() {
		return
	}
	t := w.sees()
	if err != nil && t != nil && t.Process().Name() != client {
		w.goesOn(ctx, "calls")
	}
	switch {
	case t == nil || t.Process().Name() == client:
	case err == nil:
		if w.rules.Failing(t.ID()) {
			w.rules.CallAnswered(part(t), ctx, call)
		}
	case errors.Is(err, context.Canceled):
		// A task that gave a call up itself knows of it. But a task whose context had ended before
		// the call made the call too late.
		if of := t.Held(); of.Ended == ctx {
			w.rules.CalledTooLate(part(t), call, of.EndedAt)
		}
	case errors.Is(err, store.ErrLost), errors.Is(err, store.ErrSuperseded), errors.Is(err, store.ErrLeaseOver):
		// These errors are answers, not failures.
	default:
		w.rules.CallFailed(part(t), ctx, call, err.Error(), errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome))
	}
}

// nothing is called for each call of a process that names nothing.
func (w *witness) nothing(call string) {
	if t := w.sees(); t != nil && t.Process().Name() != client {
		w.rules.NamesNothing(part(t), call)
	}
}

// probed gets the outcome of each probe of a health endpoint.
func (w *witness) probed(by *kernel.Process, url string, err error) {
	if w != nil && w.sees() != nil {
		w.rules.Probed(by, by.Name(), url, w.k.Now(), err != nil)
	}
}

// host wraps the machine of a process.
func (w *witness) host(p *process, h host.Host) host.Host {
	if w == nil {
		return h
	}
	concurrency := 0
	if p.worker != nil {
		concurrency = p.settings().Worker.Concurrency
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
	if t := s.w.sees(); t != nil {
		s.w.rules.Starts(invariant.Part{Process: t.Process().Name(), Name: name}, s.worker, s.concurrency, s.tasks)
	}
	return s.Host.Go(name, func() {
		run()
		s.tasks--
		s.w.ended()
	})
}

// ended reports that the current task ends by itself.
func (w *witness) ended() {
	if w == nil {
		return
	}
	t := w.sees()
	if t == nil {
		return
	}
	of := t.Held()
	w.rules.Ends(part(t), of.Limited+of.Plain)
}

// toldOver notes that a wait of the current task has ended because its context did.
func (w *witness) toldOver(ctx context.Context, err error) {
	if err == nil || ctx.Err() == nil {
		return
	}
	if t := w.sees(); t != nil {
		t.Noted.Over, t.Noted.OverAt = ctx, w.k.Now()
	}
}

// goesOn reports that the current task uses a context although it was told of the context's end.
func (w *witness) goesOn(ctx context.Context, what string) {
	if t := w.sees(); t != nil && t.Noted.Over == ctx {
		w.rules.GoesOn(part(t), what, t.Noted.OverAt)
	}
}

// waits reports that the current task begins to wait under a context.
func (w *witness) waits(ctx context.Context) {
	t := w.sees()
	if t == nil {
		return
	}
	if t.Noted.Over == ctx {
		w.rules.GoesOn(part(t), "waits", t.Noted.OverAt)
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
		w.rules.Waits(part(t), of.Limited, of.Plain)
	}
}

// Sleep implements host.Host.
func (s *seenHost) Sleep(ctx context.Context, d time.Duration) error {
	s.w.waits(ctx)
	err := s.Host.Sleep(ctx, d)
	s.w.toldOver(ctx, err)
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
	s.w.waits(ctx)
	set, err := s.Signal.Wait(ctx, d)
	s.w.toldOver(ctx, err)
	return set, err
}

// WithCancel implements host.Host.
func (s *seenHost) WithCancel(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := s.Host.WithCancel(parent)
	if s.w.sees() != nil {
		s.w.k.Watch(ctx, false)
	}
	return ctx, cancel
}

// WithTimeout implements host.Host.
func (s *seenHost) WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := s.Host.WithTimeout(parent, d)
	if s.w.sees() != nil {
		s.w.k.Watch(ctx, true)
	}
	return ctx, cancel
}

// recorder wraps the recorder of a process.
func (w *witness) recorder(r telemetry.Recorder) telemetry.Recorder {
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
		if t := s.w.sees(); t != nil {
			s.w.rules.Counted(part(t), l[0], l[1] == "failed")
		}
	case telemetry.LogLinesSuppressed:
		if t := s.w.sees(); t != nil {
			s.w.rules.Suppressed(part(t))
		}
	default:
	}
	s.Recorder.Add(f, n, l)
}

// log returns a logger that reports lines about errors and passes all lines on to h.
func (w *witness) log(h slog.Handler) *slog.Logger {
	if w == nil {
		return slog.New(h)
	}
	return slog.New(&seenLog{h, w})
}

type seenLog struct {
	slog.Handler
	w *witness
}

// Enabled implements slog.Handler: it is also true while a part has to log a failure.
func (s *seenLog) Enabled(ctx context.Context, level slog.Level) bool {
	return s.wants(level) || s.Handler.Enabled(ctx, level)
}

func (s *seenLog) wants(level slog.Level) bool {
	if level < slog.LevelInfo {
		return false
	}
	t := s.w.sees()
	return t != nil && (level >= slog.LevelWarn || s.w.rules.Failing(t.ID()))
}

// Handle implements slog.Handler.
func (s *seenLog) Handle(ctx context.Context, r slog.Record) error {
	if s.wants(r.Level) {
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
				carries, line.PassedOver, line.Waited = true, true, s.w.sees().Noted.Waited
			default:
			}
			return line.Error == ""
		})
		if carries {
			s.w.rules.Logged(part(s.w.sees()), line)
		}
		if line.Execution != 0 {
			s.w.rules.Says(part(s.w.sees()), line)
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
