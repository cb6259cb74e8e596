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
	// unlogged came before there was a logger.
	unlogged []string
}

type signalsKey struct{}

// Signals returns a context that ends with the first SIGINT or SIGTERM, so that the process can end
// in good order. A SIGINT after it, such as a second Ctrl+C, ends the process at once, with the exit
// code that a shell reports for it, 130. A further SIGTERM changes nothing: supervisors and scripts
// send it to the process and to its group, and those that want more send SIGKILL. LogSignals sets
// the logger for all.
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
