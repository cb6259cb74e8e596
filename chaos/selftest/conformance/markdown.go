package conformance

import (
	"fmt"
	"strings"
)

// Markdown returns README.md of this package: all tables. A test keeps the two equal.
func Markdown() string {
	var b strings.Builder
	b.WriteString(`# How true the models are

The simulated world has models of PostgreSQL (` + "`sim/simstore`" + `) and of RabbitMQ (` + "`sim/simbroker`" + `). One body
of cases, random command sequences and, for the store, histories of concurrent clients and every pair of
writes that can meet run on the models and on real servers (` + "`chaos/selftest/conformance/storetest`, `chaos/selftest/conformance/brokertest`" + `);
what clients observe is compared.

A divergence is a bug of the model unless it stands in the first table.

    HANDOFF_CONFORMANCE_STEPS=100000 go test ./chaos/selftest/conformance/postgrestest -run TestSequences
    HANDOFF_CONFORMANCE_STEPS=100000 go test ./chaos/selftest/conformance/rabbitmqtest -run TestContract
    HANDOFF_CONFORMANCE_PAIRS=all go test ./chaos/selftest/conformance/postgrestest -run TestPairs -timeout 2h
    HANDOFF_CHAOS_DATABASE_URL=… HANDOFF_CHAOS_AMQP_URL=… go test ./chaos/selftest/conformance/postgrestest ./chaos/selftest/conformance/rabbitmqtest

run longer ones (HANDOFF_CONFORMANCE_PARALLEL=8 compares fewer sequences at a time, for a busy machine), every pair at every lock instead of a sample, and all of them on servers that you name. ` + "`HANDOFF_CONFORMANCE_RECORD=$PWD/chaos/selftest/conformance/results.json`" + `
adds what was found to the last table (` + "`.ci/newer`" + ` does it for the servers of a machine and of newer Debian releases), and ` + "`go test ./chaos/selftest/conformance -update`" + ` writes this page.

## Accepted differences, and what is not modelled

| Model | | About | What | Why it is accepted |
|---|---|---|---|---|
`)
	for _, d := range Differences() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", d.Model, d.Kind, d.About, d.What, d.Why)
	}
	fmt.Fprintf(&b, "\n## What RabbitMQ does differently by its release\n\nThe model behaves like the release that is tested; a scenario names one with `cluster: {rabbitmq: \"%s\"}`.\n"+
		"Between releases of PostgreSQL no difference is accepted.\n\n| Rule | Queues | %s |\n|---|---|---|---|---|\n",
		Modelled[len(Modelled)-1], strings.Join(Modelled, " | "))
	for _, v := range Behaviours() {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", v.Rule, v.Queues, strings.Join(v.On[:], " | "))
	}
	b.WriteString("\n## Before a server is upgraded\n\n| Server | To | What | What to do |\n|---|---|---|---|\n")
	for _, c := range Caveats() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", c.Server, c.To, c.What, c.Do)
	}
	b.WriteString("\n## Divergences that were found and mended\n\n| Model | The model was wrong | The case that keeps it mended |\n|---|---|---|\n")
	for _, m := range Mended() {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", m.Model, m.What, m.Case)
	}
	b.WriteString("\n## Servers that agreed\n\n| Server | Version | Cases | Not asked | Random commands | Concurrent calls | Named scenarios, live |\n|---|---|---|---|---|---|---|\n")
	for _, r := range Results() {
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %d | %d |\n", r.Server, r.Version, r.Cases, r.Skipped, r.Commands, r.Calls, r.Scenarios)
	}
	b.WriteString("\n`.ci/newer` adds the servers of a machine, and those of newer Debian releases, each in a chroot: PostgreSQL 17 and 18, RabbitMQ 4.0 and 4.3. A 0 was not run.\n")
	return b.String()
}
