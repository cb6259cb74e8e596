package mutant_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/chaos/hook"
	"handoff/chaos/selftest/mutant"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
)

// clock is a host that has only a clock.
type clock struct {
	host.Host
	now time.Duration
}

func (c *clock) Monotonic() time.Duration { return c.now }

type said struct {
	text string
	id   execution.ID
}

func TestMutantsAreCompleteAndUnique(t *testing.T) {
	names := make(map[string]bool)
	for _, m := range mutant.All() {
		if names[m.Name] {
			t.Errorf("two mutants are called %s", m.Name)
		}
		names[m.Name] = true
		if m.Name == "" || m.Source == "" || m.About == "" || m.Expected == 0 || m.Scenario == "" {
			t.Errorf("%q: a field is empty: %+v", m.Name, m)
		}
		if m.Store != nil && m.Statements != nil {
			t.Errorf("%s: Store and Statements are both set, and one process has one store", m.Name)
		}
	}
}

func TestMutantsAreSortedBySourceThenName(t *testing.T) {
	var order []string
	for _, m := range mutant.All() {
		order = append(order, m.Source+" "+m.Name)
	}
	for _, pair := range [][2]string{
		{"C8 one-clock-fleet", "D1 observes-and-acts"}, {"D9 unknown-is-refused", "D10 pin-ignored"}, {"D9 sent-twice", "D9 unknown-is-refused"},
	} {
		before, after := slices.Index(order, pair[0]), slices.Index(order, pair[1])
		if before < 0 || after < 0 || before > after {
			t.Errorf("%q is at %d and %q at %d: the first must come first", pair[0], before, pair[1], after)
		}
	}
}

func TestNilMutantChangesNothing(t *testing.T) {
	c := config.Default(config.Hardened)
	ports := mutant.Ports{Config: &c}
	var none *mutant.Mutant
	none.Apply(mutant.Process{Name: "executor-1"}, &ports)
	if ports.Store != nil || ports.Broker != nil || ports.Executors != nil || c.Executor != config.Default(config.Hardened).Executor {
		t.Errorf("without a mutant the ports are %+v", ports)
	}
}

func TestChangedConfigurationIsReportedOnce(t *testing.T) {
	c := config.Default(config.Hardened)
	var all []said
	p := mutant.Process{Name: "executor-1", Report: func(text string, id execution.ID) { all = append(all, said{text, id}) }}
	m := &mutant.Mutant{
		Config: func(c *config.Config) { c.Executor.BatchSize = 7 },
		Store: func(p mutant.Process, s store.Store) store.Store {
			if p.Config.Executor.BatchSize != 7 {
				t.Errorf("a store is wrapped for a batch size of %d, want that of the mutant", p.Config.Executor.BatchSize)
			}
			return s
		},
	}
	m.Apply(p, &mutant.Ports{Config: &c, Host: &clock{}})
	if len(all) != 1 || !strings.Contains(all[0].text, "executor.batch_size is 7 and not ") || all[0].id != 0 {
		t.Errorf("a mutant with another batch size reported %+v", all)
	}
	m.Apply(p, &mutant.Ports{Config: &c, Host: &clock{}})
	if len(all) != 1 {
		t.Errorf("a mutant that changed nothing reported %+v", all[1:])
	}
}

func TestActedRepeatsAfterMinute(t *testing.T) {
	var all []said
	h := &clock{}
	var planted mutant.Process
	m := &mutant.Mutant{Store: func(p mutant.Process, s store.Store) store.Store {
		planted = p
		return s
	}}
	m.Apply(mutant.Process{Report: func(text string, id execution.ID) { all = append(all, said{text, id}) }}, &mutant.Ports{Host: h})
	planted.Acted("kept a slot", 1, 2)
	planted.Acted("kept a slot", 1)
	planted.Acted("kept a slot")
	h.now = time.Minute
	planted.Acted("kept a slot", 1)
	if want := []said{{"kept a slot", 1}, {"kept a slot", 2}, {"kept a slot", 0}, {"kept a slot", 1}}; !slices.Equal(all, want) {
		t.Errorf("it reported %+v, want %+v", all, want)
	}
	mutant.Process{}.Acted("nobody listens")
}

func TestStatementsMutantNeedsRawStatements(t *testing.T) {
	wrapped := 0
	m := &mutant.Mutant{Statements: func(_ mutant.Process, db mutant.Database) store.Store {
		wrapped++
		return db
	}}
	m.Apply(mutant.Process{}, &mutant.Ports{Host: &clock{}})
	if wrapped != 0 || m.Lacks() == "" {
		t.Errorf("a process without raw statements was wrapped %d times; what it lacks: %q", wrapped, m.Lacks())
	}
	m.Apply(mutant.Process{}, &mutant.Ports{Host: &clock{}, Step: func(context.Context, func(mutant.Tx)) error { return nil }})
	if wrapped != 1 {
		t.Errorf("a process with raw statements was wrapped %d times, want once", wrapped)
	}
}

func TestDaemonReadsMutantFromArguments(t *testing.T) {
	m, rest, err := mutant.FromArguments([]string{"--config", "x.yaml", "--mutant", "no-republish", "--verbose"})
	if err != nil || m == nil || m.Name != "no-republish" || !slices.Equal(rest, []string{"--config", "x.yaml", "--verbose"}) {
		t.Errorf("%+v, %q, %v", m, rest, err)
	}
	if m, rest, err := mutant.FromArguments([]string{"--config", "x.yaml"}); m != nil || err != nil || len(rest) != 2 {
		t.Errorf("without a mutant: %+v, %q, %v", m, rest, err)
	}
	for name, part := range map[string]string{
		"no-such-mutant": "no mutant is called", "unguarded-finish": "lacks its guard", "no-self-fence": "the machine on which actions run",
	} {
		if _, _, err := mutant.FromArguments([]string{"--mutant", name}); err == nil || !strings.Contains(err.Error(), part) || !strings.Contains(err.Error(), name) {
			t.Errorf("--mutant %s: %v, want an error with %q", name, err, part)
		}
	}
}

func TestDaemonLogsActingMutant(t *testing.T) {
	var b strings.Builder
	report := hook.LogTo(slog.New(slog.NewJSONHandler(&b, nil)))
	report("kept a slot", 7)
	report("kept a slot", 0)
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"msg":"mutant acted","text":"kept a slot","execution":7`) || strings.Contains(lines[1], "execution") {
		t.Errorf("the log is\n%s", b.String())
	}
}

// The text of an act ends with the call in which the mutant acted.
func TestActedNamesCall(t *testing.T) {
	var told []string
	p := mutant.Process{Report: func(text string, _ execution.ID) { told = append(told, text) }}
	caller{p: p}.Claim()
	func() { caller{p: p}.Publish() }()
	caller{p: p}.neither()
	p.Acted("by a function")
	want := []string{"late (in a call of the database: Claim)", "lost (in a call of the broker: Publish)", "of no call", "by a function"}
	if !slices.Equal(told, want) {
		t.Errorf("reported %q, want %q", told, want)
	}
}

// caller has methods with names of calls.
type caller struct{ p mutant.Process }

func (c caller) Claim()   { c.p.Acted("late") }
func (c caller) Publish() { func() { c.p.Acted("lost") }() }
func (c caller) neither() { c.p.Acted("of no call") }
