package scenario

import (
	"handoff/chaos/fault"
	"handoff/core/config"
	"handoff/core/config/yamlfile"
	"handoff/core/execution"
	"handoff/core/telemetry"
)

func topShape() yamlfile.Shape {
	return yamlfile.NewShape("the scenario",
		yamlfile.Required("name", "small letters, digits and hyphens; in the library it is the file's name without .yaml", yamlfile.Schema{"type": "string", "pattern": namePattern}),
		yamlfile.Required("about", "what it guards against, for lists and reports", yamlfile.TextSchema()),
		yamlfile.Optional("worlds", "where it can run; left out: sim and live", yamlfile.SomeSetOf(yamlfile.Enum(worldNames()))),
		yamlfile.Required("cluster", "what runs", clusterShape().Object()),
		yamlfile.Optional(
			"profile", "which set of defaults and policies it runs under, or a list; left out: every profile",
			yamlfile.Schema{"oneOf": []any{yamlfile.Enum(profileNames()), yamlfile.SomeSetOf(yamlfile.Enum(profileNames()))}},
		),
		yamlfile.Optional("config", "keys of the daemons' own configuration; the rest are the profile's", configSchema()),
		yamlfile.Required("actions", "what can be run, by reference, and how it behaves", yamlfile.MapOf(actionShape("").Object())),
		yamlfile.Required("workload", "what is submitted, and when", yamlfile.SomeOf(yamlfile.Schema{"oneOf": []any{loadShape().Object(), cancelStepShape().Object()}})),
		yamlfile.Optional("faults", "what goes wrong", yamlfile.ListOf(faultSchema())),
		yamlfile.Optional("settle", "how long the end may take", settleShape().Object()),
		yamlfile.Optional("expect", "what must be true at the end; where profiles differ, a mapping for each of them", expectSchema()),
		yamlfile.Optional("regression", "the failure that the file reproduces; written by chaos shrink", regressionShape().Object()),
	)
}

func regressionShape() yamlfile.Shape {
	return yamlfile.NewShape("regression",
		yamlfile.Required("seed", "the seed in which it shows", yamlfile.Schema{"type": "integer", "minimum": 0}),
		yamlfile.Optional("mutant", "the mutant; left out: none, and the run has to pass", yamlfile.TextSchema()),
		yamlfile.Optional("invariant", "what is broken; left out: an expectation", yamlfile.IntegerSchema(1, LastInvariant)),
	)
}

func clusterShape() yamlfile.Shape {
	return yamlfile.NewShape("cluster",
		yamlfile.Optional("executors", "how many, named executor-1 and so on; left out: 1", yamlfile.IntegerSchema(1, maxExecutors)),
		yamlfile.Optional("rabbitmq", "the release that the broker behaves like, in quotes, only where worlds is [sim]; left out: 3.10", yamlfile.Enum(BrokerVersions())),
		yamlfile.Required("workers", "the workers by name; {} for none", yamlfile.Schema{
			"type":                 "object",
			"propertyNames":        yamlfile.Schema{"pattern": namePattern},
			"maxProperties":        maxWorkers,
			"additionalProperties": workerShape("").Object(),
		}),
	)
}

func workerShape(name string) yamlfile.Shape {
	return yamlfile.NewShape(shapeName("worker", name),
		yamlfile.Required("runtimes", "the runtimes of the actions that it can run", yamlfile.SomeOf(yamlfile.TextSchema())),
		yamlfile.Optional("concurrency", "how many actions it runs at a time; left out: the configuration's", yamlfile.IntegerSchema(1, maxConcurrency)),
		yamlfile.Optional("starts", "when its process is started; left out: with the cluster", yamlfile.DurationSchema()),
	)
}

func actionShape(ref string) yamlfile.Shape {
	return yamlfile.NewShape(shapeName("action", ref),
		yamlfile.Required("runtime", "the runtime that a worker must have to run it", yamlfile.TextSchema()),
		yamlfile.Required("takes", "how long a run lasts", fault.DrawnSchema("takes")),
		yamlfile.Optional("fails", "how often a run fails, and why; left out: never", failsSchema()),
		timeoutKey(yamlfile.Short(execution.DefaultTimeout)),
		dispatchTimeoutKey("the configuration's"),
		yamlfile.Optional("concurrency", "how many executions of it may be between their scheduling and their end at a time; left out: no limit", yamlfile.IntegerSchema(1, maxConcurrency)),
		retriesKey("0"),
		yamlfile.Optional("retried_exit_codes", "exit codes that are retried, whatever the table of exit codes says; left out: none", exitCodesSchema()),
	)
}

func exitCodesSchema() yamlfile.Schema {
	return yamlfile.SomeSetOf(yamlfile.IntegerSchema(1, execution.MaxExitCode))
}

// Limits that an action and a workload step may set. otherwise describes the value if the key is left out.

func timeoutKey(otherwise string) yamlfile.Key {
	return yamlfile.Optional("timeout", "ends a run; left out: "+otherwise, yamlfile.DurationSchema())
}

func dispatchTimeoutKey(otherwise string) yamlfile.Key {
	return yamlfile.Optional("dispatch_timeout", "how long a dispatch may wait for its claim, at most the queue's time to live; left out: "+otherwise, yamlfile.DurationSchema())
}

func retriesKey(otherwise string) yamlfile.Key {
	return yamlfile.Optional(
		"max_retries", "how many retries may follow a run that failed for a retriable reason; left out: "+otherwise,
		yamlfile.IntegerSchema(0, maxRetries),
	)
}

func failsShape() yamlfile.Shape {
	return yamlfile.NewShape("fails",
		yamlfile.Required("rate", "the share of the runs that fail", yamlfile.ShareSchema()),
		yamlfile.Optional("reason", "why; it decides whether a retry may follow. Either this or exit_codes", yamlfile.Enum(reasonNames())),
		yamlfile.Optional("exit_codes", "with which exit codes; each run that fails draws one of them, and the code decides whether a retry may follow", exitCodesSchema()),
	)
}

// failsSchema requires one of the two keys that define how a run fails.
func failsSchema() yamlfile.Schema {
	s := failsShape().Object()
	s["oneOf"] = []any{yamlfile.Schema{"required": []string{"reason"}}, yamlfile.Schema{"required": []string{"exit_codes"}}}
	return s
}

func loadShape() yamlfile.Shape {
	return yamlfile.NewShape("workload",
		yamlfile.Required("action", "one of the actions", yamlfile.StringSchema()),
		yamlfile.Required("count", "how many executions", yamlfile.IntegerSchema(1, maxCount)),
		yamlfile.Optional("every", "the time between two of them; left out: all at once", yamlfile.DurationSchema()),
		yamlfile.Optional("from", "when the first is submitted; left out: at the start", yamlfile.DurationSchema()),
		yamlfile.Optional("parent", "an action that is submitted above: the n-th of these executions is a workflow child of its n-th, and created when that is known", yamlfile.StringSchema()),
		yamlfile.Optional("siblings", "beside parent: how many children each parent gets; the first so many belong to the first parent, and so on; left out: 1", yamlfile.IntegerSchema(1, maxCount)),
		yamlfile.Optional("again", "the number of a submitting step above, counted from 1: this step sends the same idempotency keys again, at least 24h5m later, so each creates a new execution; left out: keys of its own", yamlfile.IntegerSchema(1, maxCount)),
		yamlfile.Optional("copies", "how often every request is sent at the same time, under one idempotency key; left out: once", yamlfile.IntegerSchema(1, maxCopies)),
		yamlfile.Optional("pin", "the only worker that may run them; left out: any", yamlfile.StringSchema()),
		timeoutKey("the action's"), dispatchTimeoutKey("the action's"), retriesKey("the action's"),
	)
}

// cancelStepShape returns the shape of a step that cancels executions.
func cancelStepShape() yamlfile.Shape {
	cancel := cancelShape().Object()
	cancel["not"] = yamlfile.Schema{"required": []string{"at", "after"}}
	return yamlfile.NewShape("workload", yamlfile.Required("cancel", "cancels executions that are submitted above", cancel))
}

func cancelShape() yamlfile.Shape {
	return yamlfile.NewShape("cancel",
		yamlfile.Required("action", "one of the actions that are submitted above", yamlfile.StringSchema()),
		yamlfile.Optional("nth", "the number of the first execution of the action that is cancelled; left out: 1", yamlfile.IntegerSchema(1, maxCount)),
		yamlfile.Optional("count", "how many are cancelled; left out: 1", yamlfile.IntegerSchema(1, maxCount)),
		yamlfile.Optional("after", "how long after each was accepted; left out, without at: at once", fault.DrawnSchema("after")),
		yamlfile.Optional("at", "when all of them are cancelled, instead of after", yamlfile.DurationSchema()),
	)
}

func settleShape() yamlfile.Shape {
	return yamlfile.NewShape("settle",
		yamlfile.Required("within", "the time from the end of the last fault and the last submission to the end of the last execution; left out: computed from the configuration", yamlfile.DurationSchema()),
	)
}

func expectShape() yamlfile.Shape {
	bounds := yamlfile.Schema{
		"type":                 "object",
		"propertyNames":        yamlfile.Enum(endNames()),
		"additionalProperties": boundSchema(),
	}
	return yamlfile.NewShape("expect",
		yamlfile.Optional("invariants", "all, or the numbers of those that are judged; left out: all", yamlfile.Schema{"oneOf": []any{
			yamlfile.Schema{"const": "all"}, yamlfile.SomeSetOf(yamlfile.IntegerSchema(1, LastInvariant)),
		}}),
		yamlfile.Optional("executions", "how executions end; one with its retries counts once, with its last status", bounds),
		yamlfile.Optional("rows", "how rows end; every retry is a row of its own", bounds),
		yamlfile.Optional("sometimes", "what at least one run of a sweep must have reached", yamlfile.SetOf(yamlfile.Described(sometimesAbout()))),
		yamlfile.Optional("alerts", "which alerts fire, are over at the end, or never fire, in every run", alertsShape().Object()),
		yamlfile.Optional("texts", "error texts that at least one run of a sweep must have left on a failed execution", yamlfile.ListOf(yamlfile.TextSchema())),
	)
}

func alertsShape() yamlfile.Shape {
	names := yamlfile.SetOf(yamlfile.Enum(telemetry.RuleNames()))
	return yamlfile.NewShape("alerts",
		yamlfile.Optional("fires", "alerts that fire", names),
		yamlfile.Optional("resolves", "alerts that fire and are over at the end of the run", names),
		yamlfile.Optional("never", "alerts that don't fire", names),
	)
}

// expectSchema accepts one expectation, or one for each profile.
func expectSchema() yamlfile.Schema {
	each := yamlfile.NewShape("expect")
	for _, p := range profileNames() {
		each.Keys = append(each.Keys, yamlfile.Optional(p, "what must be true under "+p, expectShape().Object()))
	}
	either := each.Object()
	either["minProperties"] = 1
	return yamlfile.Schema{"oneOf": []any{expectShape().Object(), either}}
}

func shapeName(what, name string) string {
	if name == "" {
		return what
	}
	return what + " " + name
}

const (
	maxExecutors   = 9
	maxConcurrency = 2000
	maxRetries     = 100
	maxCount       = 100_000
	maxCopies      = 9
)

// Limits on a scenario as a whole, because the costs of its parts multiply. Each row of an execution costs a
// run about 8 KB of memory, and every worker and fault makes each step more expensive. A run ends after
// sim.DefaultMaxSteps steps.
const (
	// maxRows is the largest allowed number of executions, including copies and all possible retries.
	maxRows    = 100_000
	maxWorkers = 500
	maxFaults  = 200
)

func boundSchema() yamlfile.Schema {
	return yamlfile.Schema{"oneOf": []any{
		yamlfile.Schema{"type": "integer", "minimum": 0},
		yamlfile.Schema{"type": "string", "pattern": boundPattern},
	}}
}

func worldNames() []string { return []string{string(Sim), string(Live)} }

func profileNames() []string {
	var names []string
	for _, p := range config.Profiles() {
		names = append(names, string(p))
	}
	return names
}

// endNames lists the final statuses of an execution, and "stuck" for executions that never end.
func endNames() []string {
	var names []string
	for s := execution.Requested; s <= execution.Abandoned; s++ {
		if s.Terminal() {
			names = append(names, s.String())
		}
	}
	return append(names, Stuck)
}

func sometimesAbout() [][2]string {
	var list [][2]string
	for _, s := range Sometimes() {
		list = append(list, [2]string{s.Name, s.About})
	}
	return list
}

func triggersAbout() [][2]string {
	var list [][2]string
	for _, t := range Triggers() {
		list = append(list, [2]string{t.Name, t.About})
	}
	return list
}

func firstColumn(list [][2]string) []string {
	names := make([]string, len(list))
	for i, e := range list {
		names[i] = e[0]
	}
	return names
}
