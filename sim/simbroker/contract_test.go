package simbroker

import (
	"fmt"
	"testing"
	"time"

	"handoff/chaos/selftest/conformance/brokertest"
	"handoff/core/broker"
	"handoff/sim/simnet"
)

// The model satisfies the same contract as RabbitMQ, on several networks.
func TestContract(t *testing.T) {
	for seed, version := range Versions() {
		t.Run("RabbitMQ "+version, func(t *testing.T) { brokertest.Run(t, model(uint64(seed), version), 2) }) //nolint:gosec // there are few
	}
}

// TestSequences compares the model with itself on other networks. If two runs differ, the sequences
// test something that the contract leaves open.
func TestSequences(t *testing.T) {
	for _, version := range Versions() {
		t.Run("RabbitMQ "+version, func(t *testing.T) { brokertest.Sequences(t, model(1, version), model(2, version), 10_000, 2) })
	}
}

// model runs a body as a task of a kernel; a body that hangs fails the test.
func model(seed uint64, version string) brokertest.WithSubject {
	return func(t *testing.T, body func(s brokertest.Subject)) {
		t.Helper()
		w := newWorldLike(t, seed, version)
		done := false
		w.k.NewProcess("test").Go("body", func() {
			body(w.subject())
			done = true
		})
		w.k.Run(func() bool { return done }, hour)
		if f := w.k.Failure(); f != nil {
			t.Fatalf("%v\n%s", f, f.Stack)
		}
		if !done {
			t.Fatal("the body did not come to its end")
		}
		w.conserved()
	}
}

// subject returns the model with every operation that the contract needs. Each session belongs to its own
// process, so that each has its own links.
func (w *world) subject() brokertest.Subject {
	sessions := 0
	return brokertest.Subject{
		Connect: func() (broker.Session, error) {
			sessions++
			return w.b.Client(w.k.NewProcess(fmt.Sprint("client", sessions)), heartbeat).Connect(background)
		},
		Version: w.b.opts.Version,
		Sleep:   w.sleep, Now: w.k.Now, Within: w.within,
		Quiet: time.Second, Pause: 100 * time.Millisecond, Late: 50 * time.Millisecond, Slot: 100 * time.Millisecond,
		Heartbeat: heartbeat, Slow: true,
		Restart:     func() { w.restart(false) },
		Kill:        func() { w.restart(true) },
		DeleteQueue: func(queue string) { w.b.DeleteQueue(queue) },
		Malform:     w.malform,
		Alarm:       w.b.SetAlarm,
		Cut: func(s broker.Session, after time.Duration) {
			w.k.After(after, func() { w.breakOff(s) })
		},
		Silence: func(s broker.Session) {
			name := s.(*session).p.Name()
			w.n.Cut(name, "broker", "silence")
			w.n.Cut("broker", name, "silence")
		},
		Suspend:         func(queue string) func() { return w.b.SuspendQueue(queue, func() {}) },
		ConsumerTimeout: func(d time.Duration) { w.b.SetConsumerTimeout(d, time.Second, nil) },
		Total: func(queue string) int {
			d, _ := w.b.Depth(queue)
			return d.Total()
		},
	}
}

func (w *world) restart(kill bool) {
	w.b.Stop(kill)
	w.sleep(4 * time.Second)
	w.b.Start()
}

func (w *world) malform(exchange, key string) {
	w.b.SetFilter(1, func(broker.Type, string) Interception { return Interception{Corrupt: true, Fault: "malform"} })
	s, err := w.b.Client(w.k.NewProcess("malformer"), heartbeat).Connect(background)
	if err != nil {
		w.t.Fatal(err)
	}
	w.publish(s, broker.Confirmed, dispatch(exchange, key, 1))
	s.Close()
	w.b.SetFilter(1, nil)
}

// breakOff breaks a session's connection with a frame without content.
func (w *world) breakOff(s broker.Session) {
	of := s.(*session)
	name := of.p.Name()
	w.n.SetReset(name, "broker", 1_000_000, "reset")
	of.conn.SendToServer(simnet.FrameFunc(func() {}))
	w.n.SetReset(name, "broker", 0, "reset")
}
