package sim

import (
	"context"
	"errors"
	"go/token"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"time"

	"handoff/chaos/invariant"
	"handoff/core/execution"
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
	free  []*holding // of tasks that have ended
}

// holding is what one task has made and not ended. It is the note of the task.
type holding struct {
	k         *kernel.Kernel
	deadlines []context.Context
	plain     int
	// ended is the deadline that it has ended last, and when.
	ended   context.Context
	endedAt time.Duration
	// over is the context of whose end it was told last, and when.
	over   context.Context
	overAt time.Duration
	// waited is when it went to wait last.
	waited time.Duration
	few    [2]context.Context // the first place of deadlines
}

// heldBy is what a task holds, nil if it has made nothing yet.
func heldBy(t *kernel.Task) *holding {
	of, _ := t.Note.(*holding)
	return of
}

// Ended implements kernel.Maker.
func (of *holding) Ended(ctx context.Context) {
	for i, held := range of.deadlines {
		if held == ctx {
			of.deadlines = append(of.deadlines[:i], of.deadlines[i+1:]...)
			of.ended, of.endedAt = ctx, of.k.Now()
			return
		}
	}
	of.plain--
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
	if err != nil && t != nil && t.Process().Name() != client {
		w.goesOn(ctx, "calls")
	}
	switch {
	case t == nil || t.Process().Name() == client:
	case err == nil:
		if w.rules.Failing(t.ID()) {
			w.rules.CallAnswered(part(t), callName())
		}
	case errors.Is(err, context.Canceled):
		// Who gave a call up knows of it; but not who had given it up before.
		if of := heldBy(t); of != nil && of.ended == ctx {
			w.rules.CalledTooLate(part(t), callName(), of.endedAt)
		}
	case errors.Is(err, store.ErrLost), errors.Is(err, store.ErrSuperseded), errors.Is(err, store.ErrLeaseOver):
		// These are answers.
	default:
		w.rules.CallFailed(part(t), callName(), err.Error(), errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome))
	}
}

// nothing is told of each call of a process that names nothing.
func (w *witness) nothing() {
	if t := w.sees(); t != nil && t.Process().Name() != client {
		w.rules.NamesNothing(part(t), callName())
	}
}

// callName is the name of the call that the present task makes: of an exported method of one of the types that the core
// calls.
func callName() string {
	// Nearly always it is one of the nearest, and each costs time.
	var near [5]uintptr
	if name := callAmong(near[:runtime.Callers(3, near[:])]); name != "" {
		return name
	}
	var far [16]uintptr
	if name := callAmong(far[:runtime.Callers(3, far[:])]); name != "" {
		return name
	}
	return "of a server"
}

// callAmong is the name of the first call that one of these places in the program is part of.
func callAmong(pcs []uintptr) string {
	for _, pc := range pcs {
		name, known := callNames.Load(pc)
		if !known {
			name, _ = callNames.LoadOrStore(pc, callAt(pc))
		}
		if name := name.(string); name != "" {
			return name
		}
	}
	return ""
}

// callNames are the names of the calls by the places in the program from which callName was asked; they never change.
var callNames sync.Map //detlint:ok what it holds depends on the program alone, and no task waits for it

// callAt is the name of the call that a place in the program is part of, empty if it is part of none.
func callAt(pc uintptr) string {
	clients := [...]string{"sim/simstore.(*Client).", "sim.(*seenSession).", "sim.(*seenBroker).", "sim.(*seenConsumer)."}
	frames := runtime.CallersFrames([]uintptr{pc})
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
			return ""
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
	left := 0
	if of := heldBy(t); of != nil {
		left = len(of.deadlines) + of.plain
		if t.Note = nil; left == 0 {
			*of = holding{k: of.k, deadlines: of.deadlines[:0]}
			w.free = append(w.free, of)
		}
	}
	w.rules.Ends(part(t), left)
}

// toldOver notes that a wait of the present task has ended because its context did.
func (w *witness) toldOver(ctx context.Context, err error) {
	if err == nil || ctx.Err() == nil {
		return
	}
	if of := w.holder(); of != nil {
		of.over, of.overAt = ctx, w.k.Now()
	}
}

// goesOn is the present task's use of a context, of whose end it may have been told.
func (w *witness) goesOn(ctx context.Context, what string) {
	t := w.sees()
	if t == nil {
		return
	}
	if of := heldBy(t); of != nil && of.over == ctx {
		w.rules.GoesOn(part(t), what, of.overAt)
	}
}

// waits is the present task's going to wait under a context.
func (w *witness) waits(ctx context.Context) {
	t := w.sees()
	if t == nil {
		return
	}
	of := w.holder()
	if of.over == ctx {
		w.rules.GoesOn(part(t), "waits", of.overAt)
	}
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
	err := h.Host.Sleep(ctx, d)
	h.w.toldOver(ctx, err)
	return err
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
	set, err := s.Signal.Wait(ctx, d)
	s.w.toldOver(ctx, err)
	return set, err
}

// holder is what the present task holds, nil where there is none.
func (w *witness) holder() *holding {
	t := w.sees()
	if t == nil {
		return nil
	}
	of := heldBy(t)
	if of == nil {
		if n := len(w.free); n > 0 {
			of, w.free = w.free[n-1], w.free[:n-1]
		} else {
			of = &holding{k: w.k}
			of.deadlines = of.few[:0]
		}
		t.Note = of
	}
	return of
}

// WithCancel implements host.Host.
func (h *seenHost) WithCancel(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := h.Host.WithCancel(parent)
	if of := h.w.holder(); of != nil {
		of.plain++
		kernel.Watch(ctx, of)
	}
	return ctx, cancel
}

// WithTimeout implements host.Host.
func (h *seenHost) WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := h.Host.WithTimeout(parent, d)
	if of := h.w.holder(); of != nil {
		of.deadlines = append(of.deadlines, ctx)
		kernel.Watch(ctx, of)
	}
	return ctx, cancel
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
				carries, line.PassedOver, line.Waited = true, true, l.w.holder().waited
			default:
			}
			return line.Error == ""
		})
		if carries {
			l.w.rules.Logged(part(l.w.sees()), line)
		}
		if line.Execution != 0 {
			l.w.rules.Says(part(l.w.sees()), line)
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
