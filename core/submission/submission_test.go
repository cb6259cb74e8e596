package submission

import (
	"log/slog"
	"testing"
	"time"

	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/host/daemon"
	"handoff/core/store"
)

// New work wakes the scheduler of this process; nothing else does.
func TestOwnWorkWakesTheScheduler(t *testing.T) {
	woken := 0
	h, log := daemon.New(daemon.Options{}), slog.New(slog.DiscardHandler)
	c := config.Default(config.Hardened)
	client := broker.NewClient(h, nil, broker.Topology{}, c.MessageQueue.RabbitMQ, log)
	s := &Submitter{Host: h, Notifier: broker.NewNotifier(h, client, "test", log), Wake: func() { woken++ }, Timeout: time.Second}
	for _, x := range []struct {
		what    string
		created []store.Created
		want    int
	}{
		{"two executions", []store.Created{{ID: 1}, {ID: 2}}, 1},
		{"one that existed", []store.Created{{ID: 1, Existed: true}}, 0},
		{"a child that is skipped", []store.Created{{ID: 3, Skipped: true}}, 0},
		{"nothing", nil, 0},
	} {
		woken = 0
		if s.announceCreated(x.created); woken != x.want {
			t.Errorf("%s: woken %d times, want %d", x.what, woken, x.want)
		}
	}
	s.Wake = nil
	s.AnnounceWork(execution.Key{ID: 4}) // without a scheduler, only the hint is published
}
