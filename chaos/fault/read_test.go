package fault

import (
	"strings"
	"testing"
	"time"

	"handoff/core/config/yamlfile"
)

// read reads one entry of `faults` for a cluster with one executor and two workers, of which "late" starts
// after a minute.
func read(entry string, judged bool) (Entry, bool, yamlfile.Errors) {
	r := yamlfile.NewReader("entry.yaml", "fault", []byte(entry))
	shape := yamlfile.NewShape("the fault", append(Keys(), forKey())...)
	m, _ := r.Mapping(r.Root([]byte(entry)), shape)
	e, ok := Read(r, m, Cluster{Executors: []string{"executor-1"}, Workers: []string{"shell-1", "late"}}, judged, Begins{
		Latest: 30 * time.Second, Starts: map[string]time.Duration{"late": time.Minute},
	})
	return e, ok, r.Problems()
}

func TestReadFindsKindAndFields(t *testing.T) {
	for entry, want := range map[string]string{
		"crash: shell-1":    "crash: crash shell-1",
		"crash: any worker": "crash: crash any worker",
		"broker: kill":      "broker_kill: kill broker",
		"database: hangs":   "database_hangs: database hangs",
		"silent_connections: {of: shell-1, to: [database]}":               "silent_connections: silent connections of shell-1 to database",
		"database: read_only":                                             "database_read_only: database read only",
		"database: {slow: [100ms, 3s]}":                                   "database_slow: database slow",
		"database: {serialization_failures: 30%}":                         "serialization_failures: serialization failures",
		`messages: {drop: "*"}`:                                           "drop_messages: drop every message",
		"messages: {delay: execution.cancel, by: 3s, rate: 1%}":           "delay_messages: delay execution.cancel",
		"partition: {cut: shell-1, from: [broker, database]}":             "partition: partition shell-1 from broker and database",
		"partition: {cut: shell-1, from: [broker], direction: incoming}":  "partition: partition shell-1 from broker, incoming",
		"slow_link: {of: executor-1, to: [executors], takes: [1ms, 2ms]}": "slow_link: slow link executor-1 to executors",
		"publish: {queue: requested, what: garbage, count: 10}":           "publish: publish garbage to requested",
		"clock_step: {of: database, by: -40s}":                            "clock_step: clock step database",
		"clock_drift: {of: late, by: -0.5%}":                              "clock_drift: clock drift late",
		"rolling_restart: {of: every executor, down: 3s, every: 1m}":      "rolling_restart: rolling restart every executor",
		"stop_cut_short: {of: shell-1, after: 3s}":                        "stop_cut_short: stop cut short shell-1",
		"block_consumers: dead_letters":                                   "block_consumers: block consumers dead_letters",
	} {
		e, ok, problems := read(entry, true)
		if !ok || len(problems) > 0 {
			t.Errorf("%s is refused: %v", entry, problems)
		} else if got := e.Kind.Name + ": " + e.Kind.Describe(e.Fault); got != want {
			t.Errorf("%s is %q, want %q", entry, got, want)
		}
	}
}

func TestReadRefusesWrongEntries(t *testing.T) {
	const kinds = "allowed: block_consumers, broker, cancel_consumers, "
	for entry, want := range map[string]string{
		// Exactly one kind.
		"for: 3s":                        "1:1: the fault does nothing: it needs one kind; " + kinds,
		"{pause: late, crash: shell-1}":  "1:15: two kinds in one fault, pause and crash: write two faults",
		"{broker: kill, database: kill}": "1:16: two kinds in one fault, broker and database: write two faults",
		// One word of a group, or one mapping.
		"broker: [kill, alarm]": "1:9: fault of the broker must be a name, is a list",
		"broker: {kill: 3s}":    "1:10: kill takes no value: write broker: kill, for: 10s",
		"broker: {sleep: 3s}":   "1:9: fault of the broker must be a name, is a mapping",
		"broker: sleep":         `1:9: unknown fault of the broker "sleep"; allowed: alarm, kill, no_dead_lettering, restart`,
		"database: slow":        "1:11: slow says more than its name: write database: {slow: [100ms, 3s]}, for: 30s",
		"database: {kill: 3s}":  "1:12: kill takes no value: write database: kill, for: 5s",
		"database: {slow: 3s, serialization_failures: 1%}": "1:11: database must say exactly one thing; allowed: errors, read_errors, slow, serialization_failures",
		"database: {}":         "1:11: database must say exactly one thing; allowed: errors, read_errors, slow, serialization_failures",
		"messages: drop":       "1:11: messages must be a mapping (key: value), is the string",
		"messages: {rate: 3%}": "1:11: messages must say exactly one thing; allowed: corrupt, delay, drop, duplicate, reorder",
		// The keys of a kind.
		"messages: {drop: execution.cancel, by: 3s}": "1:36: `by` belongs to delay and reorder, not to drop",
		"messages: {delay: execution.cancel}":        `1:11: the delay lacks "by": how late delayed messages are, or the least and the most`,
		"messages: {drop: execution.cancle}":         `1:18: unknown message type "execution.cancle"; allowed: `,
		"partition: {cut: shell-1}":                  `1:12: partition lacks "from": the other ends`,
		"partition: {cut: shell-1, from: []}":        "1:33: from is empty; allowed: broker, database, executors",
		"clock_step: {of: database, by: 0s}":         "1:32: by is 0s, which moves no clock",
		"clock_drift: {of: database, by: 20%}":       "1:33: by is 20%, must be from -10% to 10%, and not 0",
		"stop_cut_short: {of: shell-1, after: 0s}":   "1:38: after is 0s, ",
		// The targets.
		"crash: broker":      "1:8: the broker is no process of the cluster; write broker: kill or broker: restart",
		"crash: shell-2":     `1:8: unknown target "shell-2"; allowed: `,
		"crash: late":        "1:8: late starts at 1m, after this fault",
		"deaf: executor-1":   `1:7: unknown worker "executor-1"; allowed: shell-1, late, `,
		"twin: every worker": `1:7: unknown worker "every worker"; allowed: shell-1, late, any worker`,
		"publish: {queue: requested, what: forged_cancel, count: 1}": `1:18: unknown queue "requested"; allowed: shell-1, late, `,
		"publish: {queue: requested, what: garbage, count: 0}":       "1:51: count is 0, must be from 1 to 200000",
	} {
		_, _, problems := read(entry, true)
		if got := problems.Error(); len(problems) != 1 || !strings.Contains(got, want) {
			t.Errorf("%s\nis refused with %s\nwant %s", entry, got, want)
		}
	}
}

// If the cluster could not be read, the reader accepts every target name.
func TestReadSkipsTargetsOfUnreadableCluster(t *testing.T) {
	for _, entry := range []string{"crash: shell-9", "deaf: shell-9", "clock_step: {of: shell-9, by: 3s}", "delete_queue: shell-9"} {
		if _, ok, problems := read(entry, false); !ok || len(problems) > 0 {
			t.Errorf("%s: %v", entry, problems)
		}
	}
}

// Users copy the example, so it must be an entry of its kind.
func TestEveryKindsExampleIsValid(t *testing.T) {
	for _, k := range Kinds() {
		example, _, _ := strings.Cut(k.Example, ", restart_after:")
		e, ok, problems := read("{"+example+"}", true)
		if !ok || len(problems) > 0 || e.Kind != k {
			t.Errorf("%s: %s is refused: %v", k.Name, k.Example, problems)
		}
	}
}
