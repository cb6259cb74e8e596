//go:build mutant

package main

import (
	"fmt"
	"os"

	"handoff/chaos/hook"
	"handoff/chaos/selftest/mutant"
	"handoff/core/store"
	"handoff/core/worker"
)

// takeMutant removes --mutant NAME from the arguments, and returns a function that plants that mutant.
func takeMutant(args []string) (rest []string, plant func(*worker.Options)) {
	m, rest, err := mutant.FromArguments(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitBadConfig)
	}
	if m == nil {
		return rest, nil
	}
	return rest, func(o *worker.Options) {
		ports := mutant.Ports{Config: &o.Config, Store: o.Store.(store.Store), Broker: o.Broker, Host: o.Host, Recorder: o.Recorder}
		m.Apply(mutant.Process{Name: o.Name, Worker: true, Report: hook.LogTo(o.Log)}, &ports)
		o.Store, o.Broker, o.Host, o.Recorder, o.Topology = ports.Store, ports.Broker, ports.Host, ports.Recorder, ports.Workers
	}
}
