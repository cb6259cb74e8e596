package policies

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"handoff/chaos/oracle"
	"handoff/core/config"
	"handoff/core/execution"
)

// The pages with the right answers.
const (
	contract  = "docs/contract.md"
	ownership = "docs/ownership.md"
	queues    = "docs/queues.md"
	retries   = "docs/retries.md"
	choosing  = "docs/executor.md"
	working   = "docs/worker.md"
	acting    = "docs/actions.md"
)

// defaults asks for every setting of both profiles.
func (a *asker) defaults() {
	for _, p := range []config.Profile{config.Hardened, config.Documented} {
		for _, s := range settingsThatDiffer("", reflect.ValueOf(oracle.Defaults(p)), reflect.ValueOf(a.core.Default(p))) {
			a.wrong(contract+" and docs/config", "default of %s in the profile %s: the contract says %v, in force is %v", s.key, p, s.right, s.inForce)
		}
		a.Asked++
	}
}

// differing is a setting with a wrong value.
type differing struct {
	key            string
	right, inForce any
}

func settingsThatDiffer(key string, right, inForce reflect.Value) (differ []differing) {
	if right.Kind() == reflect.Struct {
		for i := range right.NumField() {
			name, _, _ := strings.Cut(right.Type().Field(i).Tag.Get("yaml"), ",")
			differ = append(differ, settingsThatDiffer(strings.TrimPrefix(key+"."+name, "."), right.Field(i), inForce.Field(i))...)
		}
		return differ
	}
	if !right.Equal(inForce) {
		differ = append(differ, differing{key, right.Interface(), inForce.Interface()})
	}
	return differ
}

// transitions asks which part may change which status to which.
func (a *asker) transitions() {
	table := oracle.NewTransitionTable()
	for from := execution.None; int(from) < execution.Statuses; from++ {
		for to := execution.None; int(to) < execution.Statuses; to++ {
			a.Asked++
			if answer, right := a.core.Legal(from, to), table.Legal(from, to); answer != right {
				a.wrong(ownership, "is %v → %v lawful: the contract says %v, the core says %v", from, to, right, answer)
			}
			for by := execution.NoPart; int(by) < execution.Parts; by++ {
				if answer, right := a.core.May(by, from, to), table.May(by, from, to); answer != right {
					a.wrong(ownership, "may the %s write %v → %v: the contract says %v, the core says %v", oracle.PartName(by), from, to, right, answer)
				}
			}
		}
	}
}

// names asks for the names of statuses, reasons and parts, and whether each name is read as the
// value it belongs to.
func (a *asker) names() {
	for s := execution.None; int(s) < execution.Statuses; s++ {
		name := oracle.StatusName(s)
		expect(a, s.String(), name, ownership, "the name of status %d", s)
		read, err := a.core.ParseStatus(name)
		if right := s != execution.None; read != s || (err == nil) != right {
			a.wrong(ownership, "the status %q is read as %q, error %v", name, read, err)
		}
	}
	for r, name := range oracle.ReasonNames() {
		expect(a, execution.Reason(r).String(), name, retries, "the name of reason %d", r)
		if read, err := a.core.ParseReason(name); int(read) != r || err != nil {
			a.wrong(retries, "the failure reason %q is read as %q, error %v", name, read, err)
		}
	}
	for p := execution.NoPart; int(p) < execution.Parts; p++ {
		expect(a, p.String(), oracle.PartName(p), ownership, "the name of part %d", p)
	}
	const nobody = "no_such_name"
	if s, err := a.core.ParseStatus(nobody); err == nil || !strings.Contains(err.Error(), nobody) {
		a.wrong(ownership, "the unknown status %q is read as %q, error %v", nobody, s, err)
	}
	if r, err := a.core.ParseReason(nobody); err == nil || !strings.Contains(err.Error(), nobody) {
		a.wrong(retries, "the unknown failure reason %q is read as %q, error %v", nobody, r, err)
	}
	expect(a, strings.Join(execution.Reasons(), " "), strings.Join(oracle.ReasonNames()[1:], " "), retries, "all failure reasons")
}

// sets asks which statuses are claimed, which are final, and which reasons can be retried.
func (a *asker) sets() {
	for s := execution.None; int(s) < execution.Statuses; s++ {
		expect(a, a.core.Claimed(s), oracle.Claimed(s), ownership, "does a worker own an execution in status %v", s)
		expect(a, a.core.Terminal(s), oracle.Terminal(s), ownership, "is status %v final", s)
	}
	for n := range oracle.ReasonNames() {
		r := execution.Reason(n)
		expect(a, a.core.Retriable(r), oracle.Retriable(r), retries, "can a failure for %q be retried", r)
		expect(a, r.BlamesWorker(), oracle.BlamesWorker(r), retries, "does a failure for %q blame the worker", r)
		expect(a, r.OfAction(), oracle.OfAction(r), retries, "may an action report the failure reason %q", r)
	}
	for l := execution.NoLifecycle; l <= execution.Lost; l++ {
		expect(a, l.Gone(), oracle.Gone(l), ownership, "is a worker in lifecycle %q gone", l)
	}
	ended := execution.Execution{
		Status: execution.Status(a.number(0, execution.Statuses-1)), FailureReason: execution.Reason(a.number(0, len(oracle.ReasonNames())-1)),
		RetryCount: a.number(0, 3), Action: execution.Action{MaxRetries: a.number(0, 3)},
	}
	expect(a, ended.Retriable(), oracle.MayRetry(ended.Status, ended.FailureReason, ended.RetryCount, ended.Action.MaxRetries), retries,
		"may another retry follow retry %d of %d, which ended as %v for %q", ended.RetryCount, ended.Action.MaxRetries, ended.Status, ended.FailureReason)
}

// limits asks which limits apply to the execution of a request that sets some itself, and which of
// them are the request's own.
func (a *asker) limits() {
	of := execution.Action{Ref: "a", Timeout: a.seconds(1, 3), DispatchTimeout: a.seconds(4, 6), MaxRetries: a.number(1, 3)}
	own := execution.Limits{Timeout: a.seconds(0, 1) * 7, DispatchTimeout: a.seconds(0, 1) * 9, OwnRetries: a.oneIn(2)}
	if own.OwnRetries {
		own.MaxRetries = a.number(4, 5)
	}
	counts := own.On(of)
	expect(a, counts, oracle.Limited(of, own), contract, "the limits that apply to a request with %+v of the action %+v", own, of)
	expect(a, counts.RunTimeout(), oracle.RunTimeout(&counts), contract, "the run timeout of %+v", counts)
	var sets []string
	for _, name := range []string{"timeout_seconds", "dispatch_timeout_seconds", "max_retries"} {
		if a.oneIn(2) {
			sets = append(sets, name)
		}
	}
	expect(a, a.core.LimitsNamed(sets, of), oracle.OwnLimits(sets, of), contract, "the request's own limits of %+v, if it sets %v", of, sets)
	expect(a, fmt.Sprint(own.Names()), fmt.Sprint(named(own)), contract, "the names of %+v", own)
}

// exitCodes asks for the reason of each exit code, of an action that declares none of them and of one
// that declares some: the first and the last ones, those around the multiples of 64, and others.
func (a *asker) exitCodes() {
	declared := []int{1, oracle.MostExitCode}
	for _, code := range []int{62, 63, 64, 65, 127, 128, 191, 192, 254, a.number(2, 61), a.number(66, 126), a.number(129, 190), a.number(193, 253)} {
		if a.oneIn(2) {
			declared = append(declared, code)
		}
	}
	slices.Sort(declared)
	set := execution.NewExitCodes(slices.Concat([]int{0, -1, oracle.MostExitCode + 1}, declared)...)
	for code := 1; code <= oracle.MostExitCode; code++ {
		expect(a, a.core.ExitReason(code, execution.ExitCodes{}), oracle.ReasonOf(code, nil), acting, "the reason of exit code %d", code)
		expect(a, a.core.ExitReason(code, set), oracle.ReasonOf(code, declared), acting, "the reason of exit code %d of an action that declares %v", code, declared)
	}
	for _, code := range []int{-1, 0, oracle.MostExitCode + 1} {
		expect(a, set.Has(code), false, acting, "can an action declare the exit code %d", code)
	}
	expect(a, fmt.Sprint(set.List()), fmt.Sprint(declared), acting, "the list of the exit codes %v", declared)
}

// named are the names of the limits that a request sets.
func named(own execution.Limits) (names []string) {
	if own.Timeout > 0 {
		names = append(names, "timeout_seconds")
	}
	if own.DispatchTimeout > 0 {
		names = append(names, "dispatch_timeout_seconds")
	}
	if own.OwnRetries {
		names = append(names, "max_retries")
	}
	return names
}

// backoff asks how long a retry waits at least, at most, and for a drawn number: the first retry,
// the second, a later one, and those around the one that reaches the cap.
func (a *asker) backoff() {
	base := int64(a.number(0, 5))
	r := config.Retry{
		Enabled: true, BaseBackoffSecs: base, MaxBackoffSecs: base + int64(a.number(0, 600)),
		BackoffMultiplier: float64(a.number(1000, 4000)) / 1000, JitterFactor: float64(a.number(0, 999)) / 1000,
	}
	if a.oneIn(2) {
		r = oracle.Defaults(config.Hardened).Retry
	}
	windows := oracle.NewBackoffs(&r)
	reaches := 0
	for limit := time.Duration(r.MaxBackoffSecs) * time.Second; reaches < 20 && windows.After(reaches).Most < limit; reaches++ {
	}
	for _, n := range []int{0, 1, a.number(2, 100), max(0, reaches-1), reaches, reaches + 1} {
		w := windows.After(n)
		least := a.core.Backoff(r, n, func(uint64) uint64 { return 0 })
		most := a.core.Backoff(r, n, func(n uint64) uint64 { return n - 1 })
		drawn := a.core.Backoff(r, n, a.draw)
		a.Asked++
		// Rounding takes a few milliseconds off the delay, its jitter and each step before.
		const rounding = 10 * time.Millisecond
		if !w.Holds(least, 0) || !w.Holds(most, 0) || !w.Holds(drawn, 0) || least-w.Least > rounding || w.Most-most > rounding {
			a.wrong(retries, "the backoff after %d others with %+v: the contract says %v to %v, the core draws from %v to %v, and drew %v", n, r, w.Least, w.Most, least, most, drawn)
		}
	}
}
