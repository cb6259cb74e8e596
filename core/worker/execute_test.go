package worker

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/benbjohnson/clock"

	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/host/daemon"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// picky is a database that refuses every result with an output.
type picky struct {
	store.Worker
	refuses func(store.Finish) bool
	asked   []store.Finish
}

// Finish implements store.Worker.
func (p *picky) Finish(_ context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	p.asked = append(p.asked, fs...)
	if p.refuses(fs[0]) {
		return nil, errors.New("value too long (54000)")
	}
	return []store.Outcome{{Applied: true, Row: execution.Execution{ID: fs[0].Key.ID, Incarnation: w.Incarnation, Status: fs[0].To}}}, nil
}

func finishing(p *picky) *session {
	h := daemon.New(daemon.Options{Clock: clock.New()})
	c := config.Default(config.Hardened)
	log := slog.New(slog.DiscardHandler)
	client := broker.NewClient(h, nil, broker.Topology{}, c.MessageQueue.RabbitMQ, log)
	return newSession(&Service{
		host: h, store: p, config: c, log: log, limited: log, recorder: telemetry.Discard{}, closing: context.Background(),
		notifier: broker.NewNotifier(h, client, "w", log), topology: func(execution.WorkerID) broker.Topology { return broker.Topology{} },
	}, store.WorkerKey{ID: 1, Incarnation: 1}, 0)
}

// A completed run stays completed when the database refuses its output for good: it is neither lost nor run again.
func TestACompletedRunKeepsItsEndWhenItsOutputIsRefused(t *testing.T) {
	p := &picky{refuses: func(f store.Finish) bool { return f.Result.Output != nil }}
	finishing(p).finishes(store.Finish{Key: execution.Key{ID: 7, Epoch: 1}, To: execution.Completed, Result: execution.Result{Output: []byte(`"\u0000"`)}})
	last := p.asked[len(p.asked)-1]
	if len(p.asked) != 2 || last.To != execution.Completed || last.Result.Output != nil || last.Result.Message == "" {
		t.Errorf("the database was asked %d times, the last time for %+v", len(p.asked), last)
	}
}

// What refuses a result as a whole may pass, whatever its error says: nobody else has the end, so it is tried until it is
// taken.
func TestAResultThatIsRefusedAsAWholeIsTriedUntilItIsTaken(t *testing.T) {
	p := &picky{}
	p.refuses = func(store.Finish) bool { return len(p.asked) < 4 }
	finishing(p).finishes(store.Finish{Key: execution.Key{ID: 7, Epoch: 1}, To: execution.Failed})
	if last := p.asked[len(p.asked)-1]; len(p.asked) != 4 || last.To != execution.Failed || last.Result.Message == "" {
		t.Errorf("the database was asked %d times, want 4, the last time for %+v", len(p.asked), last)
	}
}

// finishes has the end of a run written that holds a slot.
func (t *session) finishes(f store.Finish) { t.finish(t.held.add(f.Key), f, 0) }
