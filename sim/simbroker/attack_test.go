package simbroker

import (
	"errors"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/broker"
	"handoff/sim/kernel"
)

// RabbitMQ 3.10 reads a forged x-death when its message dies, and then moves no more dead letters. Later
// releases replace it unread.
func TestHostileHeaderStopsOldDeadLettering(t *testing.T) {
	for _, version := range Versions() {
		t.Run(version, func(t *testing.T) {
			w := newWorldLike(t, 1, version)
			old := version == "3.10"
			w.spawn("p", func(p *kernel.Process, s broker.Session) {
				w.declare(s, mortal(typeQuorum, broker.Topic, time.Second))
				w.b.Forge("q", Forged{Hostile: true, Fault: "publish"})
				w.b.Forge("q", Forged{Hostile: true, Fault: "publish"})
				w.sleep(3 * time.Second)
				declares(w, p, "second", !old)
				w.expectDepth("dead", either(old, 0, 2))
				w.b.Stop(false)
				w.b.Start()
				declares(w, p, "third", !old)
				w.b.DeleteQueue("q")
				w.b.Stop(false)
				w.b.Start()
				declares(w, p, "fourth", true)
			})
			w.run(time.Hour)
			var told []int64
			for _, e := range w.r.events {
				if e.Kind == history.Expired || e.Kind == history.BrokerUp {
					told = append(told, e.Count)
				}
			}
			// When the second message dies, dead lettering has already stopped. The same holds after the
			// restart with both messages.
			want := []int64{int64(either(old, 1, 0)), 0, int64(either(old, 1, 0)), 0}
			for i := range want {
				if len(told) != len(want) || told[i] != want[i] {
					t.Fatalf("counts %v, want %v", told, want)
				}
			}
		})
	}
}

// declares reports whether a process can declare a new queue over its own session. If not, the session must
// end.
func declares(w *world, p *kernel.Process, queue string, want bool) {
	s, err := w.b.Client(p, heartbeat).Connect(background)
	if err != nil {
		w.t.Errorf("Connect: %v", err)
		return
	}
	defer s.Close()
	err = s.Declare(background, broker.Topology{Queues: []broker.Queue{{Name: queue, Type: typeQuorum}}})
	if (err == nil) != want || err != nil && !errors.Is(err, broker.ErrClosed) {
		w.t.Errorf("declaring %s: %v", queue, err)
	}
}

func either(first bool, one, other int) int {
	if first {
		return one
	}
	return other
}
