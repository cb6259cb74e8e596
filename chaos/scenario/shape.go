package scenario

import (
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/telemetry"
)

// schema is a piece of JSON Schema.
type schema map[string]any

// key is a key that a mapping may have. Loader and schema read the same list, so what an editor
// offers and what is accepted can't drift apart.
type key struct {
	name     string
	about    string
	required bool
	value    schema
}

// shape is a mapping with fixed keys; where is how messages call it.
type shape struct {
	where string
	keys  []key
}

func (s shape) names() []string {
	names := make([]string, len(s.keys))
	for i, k := range s.keys {
		names[i] = k.name
	}
	return names
}

func (s shape) has(name string) bool {
	for _, k := range s.keys {
		if k.name == name {
			return true
		}
	}
	return false
}

// object is the shape as a schema.
func (s shape) object() schema {
	properties, required := schema{}, []string{}
	for _, k := range s.keys {
		properties[k.name] = k.value.with(k.about)
		if k.required {
			required = append(required, k.name)
		}
	}
	out := schema{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

// with adds a description to a copy.
func (s schema) with(about string) schema {
	out := schema{"description": about}
	for k, v := range s {
		if k != "description" || about == "" {
			out[k] = v
		}
	}
	return out
}

func topShape() shape {
	return shape{"the scenario", []key{
		{"name", "the file's name without .yaml: small letters, digits and hyphens", true, schema{"type": "string", "pattern": namePattern}},
		{"about", "what it guards against, for lists and reports", true, schema{"type": "string", "minLength": 1}},
		{"worlds", "where it can run; left out: sim and live", false, someSetOf(enum(worldNames()))},
		{"cluster", "what runs", true, clusterShape().object()},
		{
			"profile", "which set of defaults and policies it runs under, or a list; left out: every profile", false,
			schema{"oneOf": []any{enum(profileNames()), someSetOf(enum(profileNames()))}},
		},
		{"config", "keys of the daemons' own configuration; the rest are the profile's", false, configSchema()},
		{"actions", "what can be run, by reference, and how it behaves", true, mapOf(actionShape("").object())},
		{"workload", "what is submitted, and when", true, someOf(schema{"oneOf": []any{loadShape().object(), cancelStepShape().object()}})},
		{"faults", "what goes wrong", false, listOf(faultSchema())},
		{"settle", "how long the end may take", false, settleShape().object()},
		{"expect", "what must be true at the end; where profiles differ, a mapping for each of them", false, expectSchema()},
		{"regression", "the failure that the file reproduces; written by chaos shrink", false, regressionShape().object()},
	}}
}

func regressionShape() shape {
	return shape{"regression", []key{
		{"seed", "the seed in which it shows", true, schema{"type": "integer", "minimum": 0}},
		{"mutant", "the mutant; left out: none, and the run has to pass", false, schema{"type": "string", "minLength": 1}},
		{"invariant", "what is broken; left out: an expectation", false, schema{"type": "integer", "minimum": 1, "maximum": Invariants}},
	}}
}

func clusterShape() shape {
	return shape{"cluster", []key{
		{"executors", "how many, named executor-1 and so on; left out: 1", false, schema{"type": "integer", "minimum": 1, "maximum": maxExecutors}},
		{"workers", "the workers by name; {} for none", true, schema{
			"type":                 "object",
			"propertyNames":        schema{"pattern": namePattern},
			"maxProperties":        maxWorkers,
			"additionalProperties": workerShape("").object(),
		}},
	}}
}

func workerShape(name string) shape {
	return shape{under("worker", name), []key{
		{"runtimes", "the runtimes of the actions that it can run", true, someOf(schema{"type": "string", "minLength": 1})},
		{"concurrency", "how many actions it runs at a time; left out: the configuration's", false, schema{"type": "integer", "minimum": 1, "maximum": maxConcurrency}},
		{"starts", "when its process is started; left out: with the cluster", false, durationSchema()},
	}}
}

func actionShape(ref string) shape {
	return shape{under("action", ref), []key{
		{"runtime", "the runtime that a worker must have to run it", true, schema{"type": "string", "minLength": 1}},
		{"takes", "how long a run lasts", true, drawnSchema("takes")},
		{"fails", "how often a run fails, and why; left out: never", false, failsShape().object()},
		timeoutKey(short(execution.DefaultTimeout)),
		dispatchTimeoutKey("the configuration's"),
		{"concurrency", "how many executions of it may be between their scheduling and their end at a time; left out: no limit", false, schema{"type": "integer", "minimum": 1, "maximum": maxConcurrency}},
		retriesKey("0"),
	}}
}

// The limits that an action and a step of the workload may set; otherwise is what holds where they are left out.

func timeoutKey(otherwise string) key {
	return key{"timeout", "ends a run; left out: " + otherwise, false, durationSchema()}
}

func dispatchTimeoutKey(otherwise string) key {
	return key{"dispatch_timeout", "how long a dispatch may wait for its claim, at most the queue's time to live; left out: " + otherwise, false, durationSchema()}
}

func retriesKey(otherwise string) key {
	return key{
		"max_retries", "how many retries may follow a run that failed for a retriable reason; left out: " + otherwise, false,
		schema{"type": "integer", "minimum": 0, "maximum": maxRetries},
	}
}

func failsShape() shape {
	return shape{"fails", []key{
		{"rate", "the share of the runs that fail", true, shareSchema()},
		{"reason", "why; it decides whether a retry may follow", true, enum(reasonNames())},
	}}
}

func loadShape() shape {
	return shape{"workload", []key{
		{"action", "one of the actions", true, schema{"type": "string"}},
		{"count", "how many executions", true, schema{"type": "integer", "minimum": 1, "maximum": maxCount}},
		{"every", "the time between two of them; left out: all at once", false, durationSchema()},
		{"from", "when the first is submitted; left out: at the start", false, durationSchema()},
		{"parent", "an action that is submitted above: the n-th of these executions is a workflow child of its n-th, and created when that is known", false, schema{"type": "string"}},
		{"siblings", "beside parent: how many children each parent gets; the first so many belong to the first parent, and so on; left out: 1", false, schema{"type": "integer", "minimum": 1, "maximum": maxCount}},
		{"again", "the number of a submitting step above, counted from 1: this step sends the same idempotency keys again, at least 24h5m later, so each creates a new execution; left out: keys of its own", false, schema{"type": "integer", "minimum": 1, "maximum": maxCount}},
		{"copies", "how often every request is sent at the same time, under one idempotency key; left out: once", false, schema{"type": "integer", "minimum": 1, "maximum": maxCopies}},
		{"pin", "the only worker that may run them; left out: any", false, schema{"type": "string"}},
		timeoutKey("the action's"), dispatchTimeoutKey("the action's"), retriesKey("the action's"),
	}}
}

// cancelStepShape is the other kind of step in a workload.
func cancelStepShape() shape {
	cancel := cancelShape().object()
	cancel["not"] = schema{"required": []string{"at", "after"}}
	return shape{"workload", []key{{"cancel", "cancels executions that are submitted above", true, cancel}}}
}

func cancelShape() shape {
	return shape{"cancel", []key{
		{"action", "one of the actions that are submitted above", true, schema{"type": "string"}},
		{"nth", "the number of the first execution of the action that is cancelled; left out: 1", false, schema{"type": "integer", "minimum": 1, "maximum": maxCount}},
		{"count", "how many are cancelled; left out: 1", false, schema{"type": "integer", "minimum": 1, "maximum": maxCount}},
		{"after", "how long after each was accepted; left out, without at: at once", false, drawnSchema("after")},
		{"at", "when all of them are cancelled, instead of after", false, durationSchema()},
	}}
}

func settleShape() shape {
	return shape{"settle", []key{
		{"within", "the time from the end of the last fault and the last submission to the end of the last execution; left out: computed from the configuration", true, durationSchema()},
	}}
}

func expectShape() shape {
	bounds := schema{
		"type":                 "object",
		"propertyNames":        enum(endNames()),
		"additionalProperties": boundSchema(),
	}
	return shape{"expect", []key{
		{"invariants", "all, or the numbers of those that are judged; left out: all", false, schema{"oneOf": []any{
			schema{"const": "all"}, someSetOf(schema{"type": "integer", "minimum": 1, "maximum": Invariants}),
		}}},
		{"executions", "how executions end; one with its retries counts once, with its last status", false, bounds},
		{"rows", "how rows end; every retry is a row of its own", false, bounds},
		{"sometimes", "what at least one run of a sweep must have reached", false, setOf(described(sometimesAbout()))},
		{"alerts", "which alerts fire, are over at the end, or never fire, in every run", false, alertsShape().object()},
		{"texts", "error texts that at least one run of a sweep must have left on a failed execution", false, listOf(schema{"type": "string", "minLength": 1})},
	}}
}

func alertsShape() shape {
	names := setOf(enum(telemetry.RuleNames()))
	return shape{"alerts", []key{
		{"fires", "alerts that fire", false, names},
		{"resolves", "alerts that fire and are over at the end of the run", false, names},
		{"never", "alerts that don't fire", false, names},
	}}
}

// expectSchema is one expectation, or one for each profile.
func expectSchema() schema {
	each := shape{where: "expect"}
	for _, p := range profileNames() {
		each.keys = append(each.keys, key{p, "what must be true under " + p, false, expectShape().object()})
	}
	either := each.object()
	either["minProperties"] = 1
	return schema{"oneOf": []any{expectShape().object(), either}}
}

func under(what, name string) string {
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

// Bounds on a scenario as a whole, because its parts multiply. A row of an execution costs a run about 8 KB of memory, and
// every worker and every fault makes each step dearer; a run ends after sim.DefaultMaxSteps steps.
const (
	// maxRows is how many executions there may be with their copies and all retries that they may have.
	maxRows    = 100_000
	maxWorkers = 500
	maxFaults  = 200
)

func enum(names []string) schema { return schema{"enum": names} }

// described is an enum whose entries carry a description, which editors show beside them.
func described(list [][2]string) schema {
	var options []any
	for _, e := range list {
		options = append(options, schema{"const": e[0], "description": e[1]})
	}
	return schema{"oneOf": options}
}

func listOf(item schema) schema {
	return schema{"type": "array", "items": item}
}

func someOf(item schema) schema {
	return schema{"type": "array", "items": item, "minItems": 1}
}

// setOf is a list that names nothing twice.
func setOf(item schema) schema {
	return schema{"type": "array", "items": item, "uniqueItems": true}
}

func someSetOf(item schema) schema {
	return schema{"type": "array", "items": item, "minItems": 1, "uniqueItems": true}
}

func mapOf(value schema) schema {
	return schema{"type": "object", "additionalProperties": value, "minProperties": 1}
}

func durationSchema() schema {
	return schema{"type": "string", "pattern": durationPattern}
}

func spanSchema() schema {
	return schema{"type": "array", "items": durationSchema(), "minItems": 2, "maxItems": 2}
}

func shareSchema() schema {
	return schema{"type": "string", "pattern": sharePattern}
}

func boundSchema() schema {
	return schema{"oneOf": []any{
		schema{"type": "integer", "minimum": 0},
		schema{"type": "string", "pattern": boundPattern},
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

// endNames are the ways in which an execution can end, and "stuck" for not at all.
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

func firsts(list [][2]string) []string {
	names := make([]string, len(list))
	for i, e := range list {
		names[i] = e[0]
	}
	return names
}
