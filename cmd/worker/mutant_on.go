//go:build mutant

package main

import (
	"handoff/chaos/mutant"
	"handoff/chaos/mutant/planted"
	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/worker"
)

// takeMutant takes --mutant NAME from the command line, and returns how that defect is planted.
func takeMutant(args []string) (rest []string, plant func(*worker.Options)) {
	f, rest := planted.FromArguments(args)
	if f == nil {
		return rest, nil
	}
	return rest, func(o *worker.Options) {
		id := mutant.Process{Name: o.Name, Worker: true, Config: o.Config, Host: o.Host}
		if f.Config != nil {
			f.Config(&o.Config)
		}
		if f.Store != nil {
			o.Store = f.Store(id, planted.Real{Store: o.Store.(store.Store)})
		}
		if f.Broker != nil {
			o.Broker = f.Broker(id, o.Broker)
		}
		if f.Recorder != nil {
			o.Recorder = f.Recorder(id, o.Recorder)
		}
		if f.Host != nil {
			o.Host = f.Host(id, o.Host)
		}
		if f.Workers != nil {
			c := o.Config.MessageQueue.RabbitMQ
			o.Topology = func(id execution.WorkerID) broker.Topology { return f.Workers(c, id) }
		}
	}
}
