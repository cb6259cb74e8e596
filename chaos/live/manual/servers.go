package manual

import (
	"errors"
	"fmt"
	"time"

	"handoff/chaos/fault"
	"handoff/chaos/live/cluster"
)

// This file holds the manual faults that affect the broker or the database.

var (
	_ fault.BrokerServer    = (*world)(nil)
	_ fault.DatabaseServer  = (*world)(nil)
	_ fault.DatabaseSlow    = (*world)(nil)
	_ fault.DatabaseHanging = (*world)(nil)
)

// serverWithin limits a request to stop or start a server. RabbitMQ may take long to recover its queues.
const serverWithin = 5 * time.Minute

// StopBroker implements fault.BrokerServer.
func (w *world) StopBroker(_ *fault.Injection, kill bool) (func(), error) {
	return w.stopServer(fault.Broker, kill)
}

// StopDatabase implements fault.DatabaseServer.
func (w *world) StopDatabase(_ *fault.Injection, kill bool) (func(), error) {
	return w.stopServer(fault.Database, kill)
}

func (w *world) stopServer(server string, kill bool) (start func(), err error) {
	act := cluster.Stop
	if kill {
		act = cluster.Crash
	}
	return w.actReversibly(server, act, cluster.Start)
}

// HangDatabase implements fault.DatabaseHanging: it pauses the server's processes.
func (w *world) HangDatabase(*fault.Injection) (func(), error) {
	return w.actReversibly(fault.Database, cluster.Pause, cluster.Resume)
}

// actReversibly acts on a server; end reverses that with the act `back`.
func (w *world) actReversibly(server string, act, back cluster.Act) (end func(), err error) {
	if err := w.tryAct(server, act); err != nil {
		return nil, err
	}
	return func() { w.actOrFail(server, back) }, nil
}

// SlowDatabase implements fault.DatabaseSlow. It slows every link to the database, because a client
// can't distinguish a slow statement from a slow network.
func (w *world) SlowDatabase(x *fault.Injection, adds fault.Span) (func(), error) {
	var heal []func()
	for _, process := range w.names {
		h, err := w.Affect(x, process, fault.Database, fault.Outgoing, fault.Effect{Delay: adds})
		if err != nil {
			fault.InOrder(heal)()
			return nil, err
		}
		heal = append(heal, h)
	}
	return fault.InOrder(heal), nil
}

// isServer reports whether a name denotes a server rather than a process.
func isServer(name string) bool { return name == fault.Broker || name == fault.Database }

// errUndo explains how to end another manual fault that is still in effect.
var errUndo = errors.New("another fault by hand is in effect there: wait for its end, or end it with chaos inject --undo")

// onLink adds the name of the link to an error.
func onLink(process, end string, err error) error {
	return fmt.Errorf("the link from %s to the %s: %w", process, end, err)
}
