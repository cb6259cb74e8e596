//go:build mutant

package main

import (
	"handoff/chaos/mutant"
	"handoff/chaos/mutant/planted"
	"handoff/core/broker"
	"handoff/core/executor"
	"handoff/core/store"
)

// takeMutant takes --mutant NAME from the command line, and returns how that defect is planted.
func takeMutant(args []string) (rest []string, plant func(*executor.Options)) {
	f, rest := planted.FromArguments(args)
	if f == nil {
		return rest, nil
	}
	return rest, func(o *executor.Options) {
		id := mutant.Process{Name: o.Name, Config: o.Config, Host: o.Host}
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
		if f.Executors != nil {
			var t broker.Topology = f.Executors(o.Config.MessageQueue.RabbitMQ)
			o.Topology = &t
		}
	}
}
