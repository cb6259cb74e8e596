package daemon

import (
	"context"
	"log/slog"
	"os"
	ossignal "os/signal"
	"sync"
	"syscall"
)

// signals are the signals that the process has received, and the logger that reports them.
type signals struct {
	mu  sync.Mutex
	log *slog.Logger
	// untold came before there was a logger.
	untold []string
}

type signalsKey struct{}

// Signals returns a context that ends with the first SIGINT or SIGTERM, so that the process can end
// in good order. A second signal ends the process at once, with the exit code that a shell reports
// for a process killed by it: 130 or 143. LogSignals sets the logger for both.
func Signals(parent context.Context) context.Context {
	ctx, cancel := context.WithCancel(parent)
	s := new(signals)
	received := make(chan os.Signal, 2)
	ossignal.Notify(received, os.Interrupt, syscall.SIGTERM)
	go func() {
		name, _ := describeSignal(<-received)
		s.tell("received " + name)
		cancel()
		name, code := describeSignal(<-received)
		s.tell("received " + name + ", the second signal: ending at once")
		os.Exit(code)
	}()
	return context.WithValue(ctx, signalsKey{}, s)
}

// LogSignals sets the logger for the signals that the process receives or has received. ctx must
// come from Signals; otherwise nothing happens.
func LogSignals(ctx context.Context, log *slog.Logger) {
	s, ok := ctx.Value(signalsKey{}).(*signals)
	if !ok {
		return
	}
	s.mu.Lock()
	untold := s.untold
	s.log, s.untold = log, nil
	s.mu.Unlock()
	for _, text := range untold {
		s.tell(text)
	}
}

func (s *signals) tell(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log == nil {
		s.untold = append(s.untold, text)
		return
	}
	s.log.LogAttrs(context.Background(), slog.LevelInfo, text)
}

// describeSignal returns a signal's name, and the exit code of a process that it ended.
func describeSignal(s os.Signal) (name string, code int) {
	if s == os.Interrupt {
		return "SIGINT", 130
	}
	return "SIGTERM", 143
}
