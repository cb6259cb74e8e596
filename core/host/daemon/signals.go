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
		s.tell("received " + signalName(<-received))
		cancel()
		for again := range received {
			if again == os.Interrupt {
				s.tell("received SIGINT while stopping: ending at once")
				os.Exit(interrupted)
			}
			s.tell("received SIGTERM while stopping: it changes nothing; SIGINT ends the process at once")
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

// interrupted is the exit code of a process that SIGINT ended.
const interrupted = 130

func signalName(s os.Signal) string {
	if s == os.Interrupt {
		return "SIGINT"
	}
	return "SIGTERM"
}
