package scenario

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
)

const limited = `
name: limited
about: Two steps with limits of their own.
worlds: [sim]
cluster: {workers: {w: {runtimes: [shell]}}}
profile: hardened
actions: {a: {runtime: shell, takes: 1s, timeout: 10s, max_retries: 2}}
workload:
  - {action: a, count: 2}
  - {action: a, count: 2, timeout: 20s, dispatch_timeout: 30s, max_retries: 0}
  - {action: a, count: 1, from: 24h5m, again: 2}
`

func TestWorkloadStepSetsLimitsOfRequests(t *testing.T) {
	s := parseScenario(t, limited)
	own := execution.Limits{Timeout: 20 * time.Second, DispatchTimeout: 30 * time.Second, OwnRetries: true}
	for key, want := range map[string]execution.Limits{"0/1": {}, "1/0": own, "1/1": own} {
		got, known := s.Requested(key)
		if !known || got != want.On(s.Actions[0].Action) {
			t.Errorf("the request %s asks for %+v, %v", key, got, known)
		}
	}
	if s.Workload[2].Limits != own {
		t.Errorf("the repeated requests ask for %+v", s.Workload[2].Limits)
	}
	for _, key := range []string{"", "x", "3/0", "-1/0", "core.echo k"} {
		if got, known := s.Requested(key); known {
			t.Errorf("the unknown key %q asks for %+v", key, got)
		}
	}
}

func TestLimitsOfRequestsAreScaled(t *testing.T) {
	s := parseScenario(t, strings.Replace(limited, "  - {action: a, count: 1, from: 24h5m, again: 2}\n", "", 1))
	scaled, err := s.Scaled(0.5, config.Hardened)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := scaled.Workload[1].Limits, (execution.Limits{Timeout: 10 * time.Second, DispatchTimeout: 15 * time.Second, OwnRetries: true}); got != want {
		t.Errorf("at half the time the requests ask for %+v", got)
	}
	if got, _ := scaled.Requested("0/0"); got.Timeout != 5*time.Second || s.Workload[1].Limits.Timeout != 20*time.Second {
		t.Errorf("at half the time others ask for %+v, and the scenario has %+v", got, s.Workload[1].Limits)
	}
}

func TestScenarioTotalsAreLimited(t *testing.T) {
	many := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for want, text := range map[string]string{
		"501 workers; a scenario has at most 500": strings.Replace(limited, "w: {runtimes: [shell]}", many(501, "w%d: {runtimes: [shell]}, "), 1),
		"201 faults; a scenario has at most 200":  limited + "faults:\n" + many(201, "  - {when: {at: %ds}, crash: w}\n"),
		"up to 100004 executions":                 strings.Replace(limited, "count: 2}", "count: 33332}", 1) + "  - {action: a, count: 1, copies: 3}\n",
	} {
		if _, err := Parse("x.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// The loader stops reading an endless file at the size limit.
func TestEndlessFileIsRefused(t *testing.T) {
	if _, err := os.Stat("/dev/zero"); err != nil {
		t.Skip("no /dev/zero here")
	}
	if _, err := LoadFile("/dev/zero"); err == nil || !strings.Contains(err.Error(), "more than 1048576 bytes") {
		t.Error(err)
	}
}
