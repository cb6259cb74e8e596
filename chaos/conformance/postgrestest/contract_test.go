package postgrestest_test

import (
	"strings"
	"testing"

	"handoff/chaos/conformance"
	"handoff/chaos/conformance/storetest"
	"handoff/core/store/postgres"
)

// The contract that the model of the simulated world keeps too, and whatever can be asked when a case is over is
// answered as by the model. All cases share a database, emptied before each.
func TestContract(t *testing.T) {
	b := setup(t)
	b.Store = b.open(postgres.Options{Now: b.clock, Tracer: &refused{t: t}})
	storetest.Compare(t, model, func(_ *testing.T, body func(storetest.Subject)) {
		b.empty()
		b.now = beginning
		body(b.subject())
	})
	b.agreed(conformance.Result{Cases: len(storetest.Cases())})
}

// agreed records what this version of PostgreSQL agreed with the model on.
func (b *fixture) agreed(r conformance.Result) {
	if b.Failed() {
		return
	}
	var version string
	b.scan("show server_version", nil, &version)
	r.Server, r.Version = "PostgreSQL", strings.Fields(version)[0]
	b.Logf("%+v", r)
	b.must(conformance.Record(r))
}
