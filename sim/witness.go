package sim

import (
	"context"
	"errors"
	"go/token"
	"log/slog"
	"runtime"
	"strings"
	"time"

	"handoff/chaos/invariant"
	"handoff/core/host"
	"handoff/core/store"
	"handoff/core/telemetry"
	"handoff/sim/kernel"
)

// witness sees how the parts of the processes behave: which of their calls fail, what they log, when they wait, and what
// they hold then. It tells the rules that judge that. It stands below mutants, so that a part that is deceived is seen as it
// is, and changes nothing: a run is the same with it and without.
type witness struct {
	k     *kernel.Kernel
	rules *invariant.Conduct
	// parts are the tasks that hold contexts, by their numbers.
	parts map[uint64]*holding
}

// holding is what one task has made and not ended.
type holding struct {
	deadlines []context.Context
	plain     int
	// ended is the deadline that it has ended last, and when.
	ended   context.Context
	endedAt time.Duration
	// waited is when it went to wait last.
	waited time.Duration
}

func newWitness(k *kernel.Kernel, rules *invariant.Conduct) *witness {
	if rules == nil {
		return nil
	}
	return &witness{k: k, rules: rules, parts: make(map[uint64]*holding)}
}

func part(t *kernel.Task) invariant.Part {
	return invariant.Part{Process: t.Process().Name(), Name: t.Name(), Task: t.ID()}
}

// sees returns the task to which what happens now is put down, nil if there is none.
func (w *witness) sees() *kernel.Task {
	if w.k.Dying() {
		return nil
	}
	return w.k.Current()
}

// answered is told the outcome of each call of a process.
func (w *witness) answered(ctx context.Context, err error) {
	t := w.sees()
	switch {
	case t == nil || t.Process().Name() == client:
	case err == nil:
		if w.rules.Failing(t.ID()) {
			w.rules.CallAnswered(part(t), callName())
		}
	case errors.Is(err, context.Canceled):
		// Who gave a call up knows of it; but not who had given it up before.
		if of := w.parts[t.ID()]; of != nil && of.ended == ctx {
			w.rules.CalledTooLate(part(t), callName(), of.endedAt)
		}
	case errors.Is(err, store.ErrLost), errors.Is(err, store.ErrSuperseded), errors.Is(err, store.ErrLeaseOver):
		// These are answers.
	default:
		w.rules.CallFailed(part(t), callName(), err.Error(), errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome))
	}
}

// callName is the name of the call that the present task makes: of an exported method of one of the types that the core
// calls.
func callName() string {
	clients := [...]string{"sim/simstore.(*Client).", "sim.(*seenSession).", "sim.(*seenBroker).", "sim.(*seenConsumer)."}
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		for _, client := range clients {
			if _, name, found := strings.Cut(f.Function, client); found {
				if name, _, _ = strings.Cut(name, "."); token.IsExported(name) {
					return name
				}
			}
		}
		if !more {
			return "of a server"
		}
	}
}

// probed is told the outcome of each probe of a health endpoint, by a process.
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

// seenHost is a machine whose tasks, waits and contexts are counted.
type seenHost struct {
	host.Host
	w           *witness
	worker      bool
	concurrency int
	tasks       int
}

// Go implements host.Host.
func (h *seenHost) Go(name string, run func()) host.Task {
	h.tasks++
	if t := h.w.sees(); t != nil {
		h.w.rules.Starts(invariant.Part{Process: t.Process().Name(), Name: name}, h.worker, h.concurrency, h.tasks)
	}
	return h.Host.Go(name, func() {
		run()
		h.tasks--
		h.w.ended()
	})
}

// ended is the end of the present task, by itself.
func (w *witness) ended() {
	if w == nil {
		return
	}
	t := w.sees()
	if t == nil {
		return
	}
	held := 0
	if of := w.parts[t.ID()]; of != nil {
		held = len(of.deadlines) + of.plain
		delete(w.parts, t.ID())
	}
	w.rules.Ends(part(t), held)
}

// waits is the present task's going to wait under a context.
func (w *witness) waits(ctx context.Context) {
	t := w.sees()
	if t == nil {
		return
	}
	of := w.holder()
	deadlines, plain := len(of.deadlines), of.plain
	for _, held := range of.deadlines {
		if held == ctx {
			deadlines--
		}
	}
	of.waited = w.k.Now()
	if deadlines+plain > 0 || w.rules.Failing(t.ID()) {
		w.rules.Waits(part(t), deadlines, plain)
	}
}

// Sleep implements host.Host.
func (h *seenHost) Sleep(ctx context.Context, d time.Duration) error {
	h.w.waits(ctx)
	return h.Host.Sleep(ctx, d)
}

// NewSignal implements host.Host.
func (h *seenHost) NewSignal() host.Signal { return &seenSignal{h.Host.NewSignal(), h.w} }

type seenSignal struct {
	host.Signal
	w *witness
}

// Wait implements host.Signal.
func (s *seenSignal) Wait(ctx context.Context, d time.Duration) (bool, error) {
	s.w.waits(ctx)
	return s.Signal.Wait(ctx, d)
}

// holder is what the present task holds, nil where there is none.
func (w *witness) holder() *holding {
	t := w.sees()
	if t == nil {
		return nil
	}
	of := w.parts[t.ID()]
	if of == nil {
		of = new(holding)
		w.parts[t.ID()] = of
	}
	return of
}

// WithCancel implements host.Host.
func (h *seenHost) WithCancel(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := h.Host.WithCancel(parent)
	of := h.w.holder()
	if of == nil {
		return ctx, cancel
	}
	of.plain++
	over := false
	return ctx, func() {
		if !over {
			over = true
			of.plain--
		}
		cancel()
	}
}

// WithTimeout implements host.Host.
func (h *seenHost) WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := h.Host.WithTimeout(parent, d)
	of := h.w.holder()
	if of == nil {
		return ctx, cancel
	}
	of.deadlines = append(of.deadlines, ctx)
	return ctx, func() {
		for i, held := range of.deadlines {
			if held == ctx {
				of.deadlines = append(of.deadlines[:i], of.deadlines[i+1:]...)
				of.ended, of.endedAt = ctx, h.w.k.Now()
				break
			}
		}
		cancel()
	}
}

// recorder wraps where a process reports its figures to.
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
func (r *seenRecorder) Add(f telemetry.Figure, n int64, l telemetry.Labels) {
	switch f {
	case telemetry.LoopRuns:
		if t := r.w.sees(); t != nil {
			r.w.rules.Counted(part(t), l[0], l[1] == "failed")
		}
	case telemetry.LogLinesSuppressed:
		if t := r.w.sees(); t != nil {
			r.w.rules.Suppressed(part(t))
		}
	default:
	}
	r.Recorder.Add(f, n, l)
}

// log returns a logger whose lines about errors are seen, and that hands all of them on to h.
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

// Enabled implements slog.Handler: lines are also written where a part has to tell of a failure.
func (l *seenLog) Enabled(ctx context.Context, level slog.Level) bool {
	return l.wants(level) || l.Handler.Enabled(ctx, level)
}

func (l *seenLog) wants(level slog.Level) bool {
	if level < slog.LevelInfo {
		return false
	}
	t := l.w.sees()
	return t != nil && (level >= slog.LevelWarn || l.w.rules.Failing(t.ID()))
}

// Handle implements slog.Handler.
func (l *seenLog) Handle(ctx context.Context, r slog.Record) error {
	if l.wants(r.Level) {
		line := invariant.Line{Text: r.Message, Warns: r.Level >= slog.LevelWarn}
		carries := false
		r.Attrs(func(a slog.Attr) bool {
			switch a.Key {
			case "error":
				carries, line.Error = true, a.Value.String()
				line.Empty = line.Error == "" || line.Error == "<nil>"
			case "url":
				line.URL = a.Value.String()
			case "reachable":
				carries, line.Probe, line.Reachable = true, true, a.Value.Kind() == slog.KindBool && a.Value.Bool()
			case "since_heartbeat":
				carries, line.PassedOver, line.Waited = true, true, l.w.holder().waited
			}
			return line.Error == ""
		})
		if carries {
			l.w.rules.Logged(part(l.w.sees()), line)
		}
	}
	if !l.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return l.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (l *seenLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &seenLog{l.Handler.WithAttrs(attrs), l.w}
}

// WithGroup implements slog.Handler.
func (l *seenLog) WithGroup(name string) slog.Handler {
	return &seenLog{l.Handler.WithGroup(name), l.w}
}
