package invariant

import (
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/config"
	"handoff/core/execution"
)

// endpointChanges is the part of invariant 29 about the log lines on health endpoints. Each executor probes
// the endpoints itself, and only its log shows its results (docs/executor.md).
type endpointChanges struct {
	i *Invariant
	s *Suite
	// probes holds each process's probes, by address.
	probes map[string]*proberState
	// registered counts registrations, because a new incarnation uses the previous incarnation's address but
	// has no failures. registeredAt is the time of the last registration.
	registered   uint64
	registeredAt time.Duration
	// claimed is when each executor last claimed an execution for scheduling.
	claimed map[string]time.Duration
}

type proberState struct {
	process any
	at      map[string]*probedURL
}

// probedURL holds the results of the probes of one address.
type probedURL struct {
	last       time.Duration
	registered uint64
	// listed is the earliest time at which the last probe's round may have read the list of incarnations. If
	// a worker has registered since, that round may have probed its earlier incarnation.
	listed time.Duration
	// known reports whether failed, the number of consecutive failures, must equal the process's own count.
	// wasKnown reports the same about was, the number before the last probe.
	known, wasKnown bool
	failed, was     int
	told            bool
}

func (t *endpointChanges) observeEvent(e *history.Event) {
	switch e.Kind {
	case history.WorkerRegistered:
		t.registered, t.registeredAt = t.registered+1, e.At
	case history.Transition:
		if e.From == execution.Requested && e.To == execution.Scheduling {
			if t.claimed == nil {
				t.claimed = make(map[string]time.Duration)
			}
			t.claimed[e.Process] = e.At
		}
	default:
	}
}

// listReadTime returns the earliest time at which the round of a probe that ends now may have read the list
// of incarnations: a statement and a probe earlier. If its process was halted meanwhile, the list may be of
// any age. The next round reads a new list.
func (t *endpointChanges) listReadTime(process string, now time.Duration) time.Duration {
	from := now - t.s.config.Executor.StatementTimeout - probeTimeout - callTime
	if p := t.s.ledger.byName[process]; p != nil && p.held.presentSince(from) {
		return -1
	}
	return from
}

// hasChanged reports whether the last probe changed the address from reachable to unreachable or back.
func (p *probedURL) hasChanged() bool {
	return (p.was >= oracle.UnreachableAfter) != (p.failed >= oracle.UnreachableAfter)
}

// judgeProbe records a probe's result, and judges whether a change detected by the previous probe was logged.
func (t *endpointChanges) judgeProbe(by any, process, url string, now time.Duration, failed bool) {
	if t.s.config.Executor.HealthProbes != config.Act {
		return // an observing prober writes to the database, and invariant 12 judges that
	}
	if t.probes == nil {
		t.probes = make(map[string]*proberState)
	}
	of := t.probes[process]
	if of == nil || of.process != by {
		of = &proberState{process: by, at: make(map[string]*probedURL)}
		t.probes[process] = of
	}
	u := of.at[url]
	if u == nil {
		// A new worker counts as reachable.
		u = &probedURL{known: true}
		of.at[url] = u
	} else {
		t.s.countOccasion(t.i)
		if u.known && u.wasKnown && u.hasChanged() && !u.told {
			t.s.recordViolation(t.i, 0, "%s found at %v that the health endpoint %s has become %s, and did not log this before it probed again", process, u.last, url, reachabilityName(u.failed))
		}
		// An executor forgets a worker after a round without it. It counts an address that two workers share
		// once for each of them.
		gap, interval := now-u.last, t.s.config.Executor.HealthCheckInterval
		if u.registered != t.registered || t.registeredAt > u.listed || gap > interval+interval/2 || gap < interval/2 {
			u.known = false
		}
	}
	u.last, u.registered, u.listed, u.told = now, t.registered, t.listReadTime(process, now), false
	u.was, u.wasKnown = u.failed, u.known
	if u.failed++; !failed {
		u.failed, u.known = 0, true
	}
}

func reachabilityName(failed int) string {
	if failed >= oracle.UnreachableAfter {
		return "unreachable"
	}
	return "reachable"
}

// judgeLine judges a log line about a worker.
func (t *endpointChanges) judgeLine(p Part, l Line) {
	if l.PassedOver {
		t.s.countOccasion(t.i)
		if at, known := t.claimed[p.Process]; !known || at < l.Waited {
			t.s.recordViolation(t.i, 0, "%s: %s logs that it passes over a worker, but has claimed nothing to place since it last waited, at %v", p.Process, p.Name, l.Waited)
		}
	}
	of := t.probes[p.Process]
	if !l.Probe || of == nil || of.at[l.URL] == nil {
		return
	}
	u := of.at[l.URL]
	if !u.known || !u.wasKnown {
		return
	}
	t.s.countOccasion(t.i)
	switch {
	case !u.hasChanged() || u.told:
		t.s.recordViolation(t.i, 0, "%s: %s logs that the health endpoint %s has changed, but it was and is %s: %d probes in a row had failed before the last one, and %d after it", p.Process, p.Name, l.URL, reachabilityName(u.failed), u.was, u.failed)
	case l.Reachable != (u.failed < oracle.UnreachableAfter):
		t.s.recordViolation(t.i, 0, "%s: %s logs reachable=%v for the health endpoint %s, which is %s", p.Process, p.Name, l.Reachable, l.URL, reachabilityName(u.failed))
	}
	u.told = true
}
