package daemon

import (
	"context"
	"log/slog"
	"os"
	ossignal "os/signal"
	"sync"
	"syscall"
)

// signals logs the signals that the process receives.
type signals struct {
	mu  sync.Mutex
	log *slog.Logger
	// unlogged holds the lines for signals that came before there was a logger.
	unlogged []string
}

type signalsKey struct{}

// Signals returns a context that ends with the first SIGINT or SIGTERM, for a graceful stop. A later SIGINT,
// such as a second Ctrl+C, ends the process at once with exit code 130, the code that shells use for SIGINT.
// A further SIGTERM has no effect: supervisors and scripts may send it both to the process and to its group,
// and use SIGKILL to end the process at once. LogSignals sets the logger of all signals.
func Signals(parent context.Context) context.Context {
	ctx, cancel := context.WithCancel(parent)
	s := new(signals)
	received := make(chan os.Signal, 2)
	ossignal.Notify(received, os.Interrupt, syscall.SIGTERM)
	go func() {
		s.logOrKeep("received " + signalName(<-received))
		cancel()
		for again := range received {
			if again == os.Interrupt {
				s.logOrKeep("received SIGINT while stopping: ending at once")
				os.Exit(exitInterrupted)
			}
			s.logOrKeep("received SIGTERM while stopping: it changes nothing; SIGINT ends the process at once")
		}
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
	unlogged := s.unlogged
	s.log, s.unlogged = log, nil
	s.mu.Unlock()
	for _, text := range unlogged {
		s.logOrKeep(text)
	}
}

func (s *signals) logOrKeep(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log == nil {
		s.unlogged = append(s.unlogged, text)
		return
	}
	s.log.LogAttrs(context.Background(), slog.LevelInfo, text)
}

// exitInterrupted is the exit code of a process that SIGINT ended.
const exitInterrupted = 130

func signalName(s os.Signal) string {
	if s == os.Interrupt {
		return "SIGINT"
	}
	return "SIGTERM"
}
