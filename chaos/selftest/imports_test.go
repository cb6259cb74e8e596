// Package selftest holds what measures the harness and its models: planted mutants and mutants of the source,
// contracts that models and servers both keep, benchmarks. Who uses the harness never opens it.
package selftest

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// An arrow says which of this project's packages the packages under some folders may import.
type arrow struct {
	// from are folders; "a." is the package a without those in it. A package has the first arrow that names it.
	from string
	// only are the folders that it may import besides its own; without any, everything but never.
	only, never string
	because     string
}

// arrows point one way:
//
//	cmd → sim, chaos/live, reports
//	sim, chaos/live → chaos/run → chaos/{fault, scenario, invariant, verdict, alert} → chaos/history → core/execution
//	sim, chaos/live → core; core → nothing of these
var arrows = []arrow{
	{from: "core/execution migrations sim/kernel docs chaos/netproxy", only: "-", because: "they know nothing of this project"},
	{
		from: "core/executor core/worker", never: "core/store/postgres core/broker/rabbitmq core/host/daemon sim chaos scenarios reports cmd",
		because: "executor and worker know the interfaces only",
	},
	{from: "core", never: "sim chaos scenarios reports cmd", because: "the core knows no simulation, faults or reports"},
	{from: "cmd/executor cmd/worker", never: "sim chaos scenarios reports", because: "daemons link nothing that tests them"},
	{from: "chaos/history", only: "core/execution", because: "a history is written in the words of the domain"},
	{from: "chaos/oracle", only: "core/config. core/execution.", because: "the oracle takes data from the core, and nothing that it judges"},
	{from: "chaos/fault", only: "core/broker. core/config core/execution chaos/history", because: "a fault knows the interfaces of a world, which are its own"},
	{
		from: "chaos/invariant", only: "core/broker. core/config core/execution chaos/dense chaos/fault chaos/history chaos/oracle",
		because: "an invariant judges a history, from whichever world it comes",
	},
	{from: "chaos/jobhistory", only: "-", because: "the history of any queue is written in words of its own"},
	{from: "chaos/promise", only: "core/config/yamlfile chaos/jobhistory", because: "promises are judged on the history of any queue, and know nothing of this one"},
	{from: "chaos/witness", only: "chaos/jobhistory", because: "a witness tells of the jobs of any queue"},
	{from: "chaos/system", only: "core/config/yamlfile chaos/promise", because: "a system is any queue"},
	{from: "chaos/alert", only: "core/telemetry", because: "an alert is judged on figures, from whichever world they come"},
	{
		from: "chaos/figures", only: "core/broker. core/config. core/execution. core/store. core/telemetry. chaos/history chaos/oracle",
		because: "figures are judged by what the world answered and by the history",
	},
	{from: "chaos/explain", only: "core/execution chaos/history", because: "an explanation reads histories, from whichever world they come"},
	{
		from: "chaos/verdict", only: "core/config core/execution chaos/dense chaos/explain chaos/history chaos/oracle",
		because: "a verdict sums up histories, and knows no world",
	},
	{
		from: "chaos/scenario", only: "core/config core/execution core/telemetry chaos/fault chaos/history chaos/invariant chaos/verdict",
		because: "a scenario is the same in every world",
	},
	{from: "chaos/vary", only: "core/config core/execution chaos/fault chaos/invariant chaos/scenario", because: "what is drawn around a scenario is a scenario"},
	{from: "chaos/soak", only: "core/execution chaos/history chaos/verdict", because: "the plan and the book of a soak know no world"},
	{from: "chaos/shard", only: "core/config/yamlfile", because: "a share is divided by number, whatever is in it"},
	{from: "chaos/audit", only: "core/config core/execution chaos/history chaos/invariant", because: "an audit is judged without a world"},
	{from: "chaos/run/product", only: "core/submission core/broker. core/execution core/host. core/store. chaos/run", because: "a client of runs knows no world"},
	{
		from: "chaos/run", only: "core/config core/execution core/host. core/telemetry. chaos/alert chaos/dense chaos/fault chaos/history chaos/invariant chaos/oracle chaos/scenario chaos/verdict",
		because: "the runner works over the interfaces of a world",
	},
	{from: "chaos/servers", only: "core/host/without", because: "servers are started and stopped, whoever uses them"},
	{
		from: "chaos/hook", only: "core/broker. core/config. core/execution core/host. core/store. core/telemetry.",
		because: "a hook wraps the ports of the core, so that it is the same in every world",
	},
	{from: "chaos/selftest/mutant/source/measure", never: "cmd chaos/live", because: "it stands on the simulator"},
	{
		from:    "chaos/selftest/mutant",
		only:    "core/broker. core/config. core/execution core/host. core/store. core/telemetry. chaos/history chaos/hook chaos/overlay",
		because: "a mutant wraps the ports of the core",
	},
	{from: "chaos/selftest/conformance", only: "core/broker. core/config core/execution core/store. core/testenv", because: "a contract knows the port that it is about"},
	{from: "chaos/live", never: "sim scenarios reports cmd", because: "the worlds don't know each other, and cmd hands them scenarios"},
	{
		from:    "sim",
		never:   "chaos/live chaos/netproxy chaos/servers reports cmd core/store/postgres core/broker/rabbitmq core/host/daemon",
		because: "the simulated world has models of its own",
	},
	{from: "scenarios", only: "core/config/yamlfile chaos/scenario", because: "the library is files and what embeds them"},
	{
		from:    "reports",
		only:    "core/config/yamlfile core/execution chaos/selftest/conformance. chaos/explain chaos/history chaos/invariant chaos/scenario chaos/shard chaos/soak chaos/verdict",
		because: "reports know verdicts and histories, and no world",
	},
}

// behindTheWall lists who may import what measures the harness.
const behindTheWall = "cmd/chaos cmd/playground sim/explore reports chaos/selftest"

// heavy are libraries that must not weigh on the rest, with the folders that may use them.
var heavy = map[string]string{
	"github.com/testcontainers":       "chaos/servers chaos/live",
	"github.com/Shopify/toxiproxy":    "chaos/netproxy chaos/live",
	"github.com/prometheus":           "core/telemetry/exporter chaos/live chaos/netproxy",
	"github.com/jackc/pgx/v5/stdlib":  "migrations", // database/sql repeats a statement whose reply was lost
	"github.com/rabbitmq/amqp091-go":  "core/broker/rabbitmq chaos cmd",
	"github.com/jackc/pgx/v5/pgxpool": "core/store/postgres chaos cmd",
}

// Imports point one way. Tests may import anything, because no package depends on them.
func TestImportsPointOneWay(t *testing.T) {
	const module = "handoff/"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	named := make(map[string]bool)
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		from := strings.TrimPrefix(words[0], module)
		i := slices.IndexFunc(arrows, func(a arrow) bool { return in(from, a.from) })
		if i >= 0 {
			named[arrows[i].from] = true
		}
		for _, path := range words[1:] {
			for library, folders := range heavy {
				if strings.HasPrefix(path, library) && !in(from, folders) {
					t.Errorf("%s imports %s: only %s may", from, path, folders)
				}
			}
			to, own := strings.CutPrefix(path, module)
			if !own {
				continue
			}
			if in(to, "chaos/selftest") && !in(from, behindTheWall) {
				t.Errorf("%s imports %s: only %s and tests may", from, to, behindTheWall)
			}
			if i < 0 {
				continue
			}
			a := arrows[i]
			if in(to, a.never) || a.only != "" && !in(to, a.only) && !in(to, a.from) {
				t.Errorf("%s imports %s: %s", from, to, a.because)
			}
		}
	}
	for _, a := range arrows {
		if !named[a.from] {
			t.Errorf("no package is in %s: the arrow is about nothing", a.from)
		}
	}
}

// in reports whether a package is one of some folders, or in one of them.
func in(pkg, folders string) bool {
	return slices.ContainsFunc(strings.Fields(folders), func(folder string) bool {
		alone, exactly := strings.CutSuffix(folder, ".")
		return pkg == alone || !exactly && strings.HasPrefix(pkg, folder+"/")
	})
}
