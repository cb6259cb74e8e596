package scenario

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/chaos/fault"
	"handoff/core/config"
	"handoff/core/execution"
)

const head = `
name: example
about: A worker dies right after a heartbeat, so for a while it looks alive.
cluster:
  executors: 2
  workers: { shell-1: {runtimes: [shell]}, shell-2: {runtimes: [shell, python], concurrency: 3, starts: 5s} }
actions:
  core.echo: { runtime: shell, takes: {uniform: [50ms, 2s]}, fails: {rate: 2%, reason: connection reset}, max_retries: 3 }
  core.sleep: { runtime: python, takes: 90s, timeout: 60s, dispatch_timeout: 100s }
workload:
  - { action: core.echo, count: 40, every: 1s, from: 500ms }
  - { action: core.sleep, count: 2 }
`

func parseScenario(t *testing.T, text string) *Scenario {
	t.Helper()
	s, err := Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestParse(t *testing.T) {
	s := parseScenario(t, head+`
worlds: [sim]
profile: hardened
config: {executor: {timeout_check_interval: 5s}}
faults:
  - { when: {after: heartbeat, of: shell-1, nth: 3, plus: 100ms}, crash: shell-1, restart_after: 90s }
  - { when: {between: [30s, 60s]}, partition: {cut: shell-2, from: [broker], direction: both, for: 45s} }
settle: {within: 12m}
expect:
  invariants: [1, 5]
  executions: {completed: ">= 95%", stuck: 0}
  rows: {failed: "< 9"}
  sometimes: [lost_worker_detected, retry_scheduled]
  texts: [No workers available]
`)
	c := s.Config(config.Hardened)
	want := &Scenario{
		Name: "example", About: "A worker dies right after a heartbeat, so for a while it looks alive.",
		Worlds: []World{Sim},
		Cluster: Cluster{Executors: 2, Workers: []Worker{
			{Name: "shell-1", Runtimes: []string{"shell"}},
			{Name: "shell-2", Runtimes: []string{"shell", "python"}, Concurrency: 3, Starts: 5 * time.Second},
		}},
		Profiles: []config.Profile{config.Hardened},
		Actions: []Action{
			{
				Action:   execution.Action{Ref: "core.echo", Runtime: "shell", MaxRetries: 3},
				TakesMin: 50 * time.Millisecond, TakesMax: 2 * time.Second,
				FailPerMillion: 20_000, FailReason: execution.Connection,
			},
			{
				Action:   execution.Action{Ref: "core.sleep", Runtime: "python", Timeout: time.Minute, DispatchTimeout: 100 * time.Second},
				TakesMin: 90 * time.Second, TakesMax: 90 * time.Second,
			},
		},
		Workload: []Load{
			{Action: "core.echo", Count: 40, Every: time.Second, From: 500 * time.Millisecond},
			{Action: "core.sleep", Count: 2},
		},
		Faults: []Fault{
			{
				Index: 0, Name: "crash shell-1", Kind: fault.Find("crash"), Spec: s.Faults[0].Spec, RestartAfter: 90 * time.Second,
				When: When{After: "heartbeat", Of: "shell-1", Nth: 3, Plus: 100 * time.Millisecond},
			},
			{
				Index: 1, Name: "partition shell-2 from broker", Kind: fault.Find("partition"), Spec: s.Faults[1].Spec, For: 45 * time.Second,
				When: When{Min: 30 * time.Second, Max: time.Minute},
			},
		},
		Settle: 12 * time.Minute,
		File:   "test.yaml", Digest: s.Digest,
		configs: map[config.Profile]config.Config{config.Hardened: c},
		expects: map[config.Profile]Expect{config.Hardened: {
			Invariants: []int{1, 5},
			Executions: []Bound{{"completed", ">=", 95, true, ">= 95%"}, {"stuck", "=", 0, false, "0"}},
			Rows:       []Bound{{"failed", "<", 9, false, "< 9"}},
			Sometimes:  []string{"lost_worker_detected", "retry_scheduled"},
			Texts:      []string{"No workers available"},
		}},
	}
	s.source = nil
	for i, fields := range []string{"&{processTarget:{Target:shell-1}}", "&{link:{Target:shell-2 Ends:[broker] Way:both}}"} {
		if got := fmt.Sprintf("%+v", s.Faults[i].Spec); got != fields {
			t.Errorf("fault %d is read as %s, want %s", i, got, fields)
		}
	}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("read\n%+v\nwant\n%+v", s, want)
	}
	if len(s.Digest) != 64 {
		t.Errorf("digest %q is no SHA-256", s.Digest)
	}
	if s.Submissions() != 42 || s.LastSubmission() != 39500*time.Millisecond {
		t.Errorf("%d submissions, the last at %v; want 42, 39.5s", s.Submissions(), s.LastSubmission())
	}
}

func TestOmittedKeysGetDefaults(t *testing.T) {
	s := parseScenario(t, strings.ReplaceAll(head, "  executors: 2\n", ""))
	if s.Cluster.Executors != 1 || !reflect.DeepEqual(s.Worlds, []World{Sim, Live}) || !reflect.DeepEqual(s.Profiles, config.Profiles()) {
		t.Errorf("executors %d, worlds %v, profiles %v", s.Cluster.Executors, s.Worlds, s.Profiles)
	}
	for _, p := range config.Profiles() {
		if !reflect.DeepEqual(s.Config(p), config.Default(p)) {
			t.Errorf("%s without config: is not its default", p)
		}
		if s.Expect(p).Invariants != nil {
			t.Errorf("%s: invariants %v, want all", p, s.Expect(p).Invariants)
		}
	}
}

func TestConfigOverridesEachProfile(t *testing.T) {
	s := parseScenario(t, head+`
config:
  executor: {dispatch_timeout: 100s, unclaimed: fail, max_dispatches: 7}
  message_queue: {rabbitmq: {dead_letter: {enabled: false}, worker_queue_ttl_ms: 110000}}
  retry: {backoff_multiplier: 3, jitter_factor: 0.5}
`)
	for _, p := range config.Profiles() {
		want := config.Default(p)
		want.Executor.DispatchTimeout = 100 * time.Second
		want.Executor.Unclaimed = config.Fail
		want.Executor.MaxDispatches = 7
		want.MessageQueue.RabbitMQ.DeadLetter.Enabled = false
		want.MessageQueue.RabbitMQ.WorkerQueueTTLMS = 110_000
		want.Retry.BackoffMultiplier = 3
		want.Retry.JitterFactor = 0.5
		if got := s.Config(p); !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%+v\nwant\n%+v", p, got, want)
		}
	}
}

func TestExpectationsCanDifferPerProfile(t *testing.T) {
	s := parseScenario(t, head+`
expect:
  hardened: {executions: {abandoned: ">= 1"}}
  documented: {executions: {abandoned: 0}, texts: [Worker queue TTL expired]}
`)
	if b := s.Expect(config.Hardened).Executions[0]; b.Op != ">=" || b.Value != 1 {
		t.Errorf("hardened: %+v", b)
	}
	if e := s.Expect(config.Documented); e.Executions[0].Op != "=" || len(e.Texts) != 1 {
		t.Errorf("documented: %+v", e)
	}
}

func TestBoundHolds(t *testing.T) {
	for _, c := range []struct {
		bound        string
		count, total int64
		want         bool
	}{
		{"3", 3, 9, true},
		{"3", 4, 9, false},
		{"= 3", 2, 9, false},
		{"<= 3", 3, 9, true},
		{"<= 3", 4, 9, false},
		{">= 3", 3, 9, true},
		{">= 3", 2, 9, false},
		{"< 3", 2, 9, true},
		{"< 3", 3, 9, false},
		{"> 3", 4, 9, true},
		{"> 3", 3, 9, false},
		{">= 95%", 19, 20, true},
		{">= 95%", 18, 20, false},
		{">= 95%", 37, 40, false},
		{">= 95%", 38, 40, true},
		{"100%", 40, 40, true},
		{"100%", 39, 40, false},
		{"<= 5 %", 2, 40, true},
		{"<= 5%", 3, 40, false},
		{">= 95%", 0, 0, true},
		{"0", 0, 0, true},
		{">= 1", 0, 0, false},
	} {
		s := parseScenario(t, head+fmt.Sprintf("expect: {rows: {completed: %q}}\n", c.bound))
		b := s.Expect(config.Hardened).Rows[0]
		if got := b.Holds(c.count, c.total); got != c.want {
			t.Errorf("%q holds for %d of %d: %v, want %v (%+v)", c.bound, c.count, c.total, got, c.want, b)
		}
	}
}

func TestFaultNamesAreUnique(t *testing.T) {
	s := parseScenario(t, head+`
faults:
  - {when: {at: 11s}, crash: shell-1}
  - {when: {at: 12s}, crash: any worker, restart_after: 1s}
  - {when: {at: 13s}, crash: shell-1}
  - {when: {at: 14s}, partition: {cut: shell-2, from: [broker, database], direction: incoming}, for: 1s}
  - {when: {at: 15s}, messages: {drop: execution.completed}, for: 1s}
  - {when: {at: 16s}, messages: {corrupt: "*", rate: 0.5%}, for: 1s}
  - {when: {at: 17s}, database: kill, for: 1s}
  - {when: {at: 18s}, latency: {of: executor-2, to: [database], adds: 100ms, for: 2s}}
`)
	want := []string{
		"crash shell-1 #0", "crash any worker", "crash shell-1 #2",
		"partition shell-2 from broker and database, incoming",
		"drop execution.completed", "corrupt every message", "kill database", "latency executor-2 to database",
	}
	for i, f := range s.Faults {
		if f.Name != want[i] || f.Index != i {
			t.Errorf("fault %d is called %q (index %d), want %q", i, f.Name, f.Index, want[i])
		}
	}
	if got := fmt.Sprintf("%+v", s.Faults[5].Spec); got != "&{messageSelector:{Type:* PerMillion:5000}}" {
		t.Errorf("corrupt: %s", got)
	}
	if f := s.Faults[7]; !strings.Contains(fmt.Sprintf("%+v", f.Spec), "Adds:{Least:100ms Most:100ms}") || f.For != 2*time.Second {
		t.Errorf("latency: %+v", f)
	}
}

// Lists and error texts show every kind's example, so each must load as its own kind.
func TestExampleOfEveryKindLoads(t *testing.T) {
	for _, f := range fault.Kinds() {
		s, err := Parse("example.yaml", []byte(head+"worlds: [sim]\nfaults: [{when: {at: 10s}, "+f.Example+"}]\n"))
		if err != nil {
			t.Errorf("%s: %v", f.Name, err)
			continue
		}
		if s.Faults[0].Kind != f {
			t.Errorf("the example of %s is read as %s", f.Name, s.Faults[0].Kind.Name)
		}
	}
}

func TestUnrunnableActionIsRefusedUnlessExpected(t *testing.T) {
	text := strings.ReplaceAll(head, "runtime: python", "runtime: node")
	if _, err := Parse("test.yaml", []byte(text)); err == nil {
		t.Error("an action that no worker can run was accepted")
	}
	parseScenario(t, text+"expect: {sometimes: [no_workers_failed]}\n")
}

func TestAliasesAreFollowed(t *testing.T) {
	s := parseScenario(t, head+`
faults:
  - {when: &soon {between: [6s, 9s]}, crash: shell-1}
  - {when: *soon, crash: shell-2, restart_after: 1s}
`)
	if s.Faults[0].When != s.Faults[1].When {
		t.Errorf("%+v and %+v", s.Faults[0].When, s.Faults[1].When)
	}
}

func TestActionsFailWithExitCodes(t *testing.T) {
	s := parseScenario(t, `
name: example
about: Exit codes.
cluster: {workers: {shell-1: {runtimes: [shell]}}}
actions:
  core.echo: {runtime: shell, takes: 1s, fails: {rate: 5%, exit_codes: [28, 255]}, retried_exit_codes: [255, 1]}
workload:
  - {action: core.echo, count: 1}
`)
	a := &s.Actions[0]
	if !slices.Equal(a.FailCodes, []int{28, 255}) || !slices.Equal(a.Retried, []int{255, 1}) || a.RetriedExitCodes != execution.NewExitCodes(1, 255) || a.FailPerMillion != 50_000 {
		t.Errorf("%+v", a)
	}
}

func TestReasonsHaveFriendlyNames(t *testing.T) {
	for name, want := range map[string]execution.Reason{
		"connection": execution.Connection, "Connection Reset": execution.Connection,
		"permission denied": execution.Permission, "rejected": execution.Rejected,
	} {
		if got, ok := findReason(name); !ok || got != want {
			t.Errorf("findReason(%q) = %v, %v", name, got, ok)
		}
	}
	// An action can't fail for a reason that only the system assigns, such as a lost worker.
	for _, name := range []string{"", "bad luck", "worker_lost", "run_timeout", "cancelled"} {
		if got, ok := findReason(name); ok {
			t.Errorf("findReason(%q) = %v", name, got)
		}
	}
}
