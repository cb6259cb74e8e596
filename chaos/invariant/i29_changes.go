package invariant

import (
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/config"
	"handoff/core/execution"
)

// toldChanges is the part of invariant 29 that judges what an operator reads of workers: probes of health endpoints are made
// by each executor for itself, so its log is the only place that says what it found (docs/executor.md).
type toldChanges struct {
	i *Invariant
	s *Suite
	// probes are those of each process, by address.
	probes map[string]*probedBy
	// registered counts registrations: a new incarnation has no failures, and stands at the address of the one before.
	// registeredAt is when the last one was.
	registered   uint64
	registeredAt time.Duration
	// claimed is when each executor claimed a row to place it last.
	claimed map[string]time.Duration
}

type probedBy struct {
	process any
	at      map[string]*probedURL
}

// probedURL is what the probes of one address have found.
type probedURL struct {
	last       time.Duration
	registered uint64
	// known says that failed, the failures in a row, is what the process has counted too, and wasKnown the same of was, those
	// before the last probe.
	known, wasKnown bool
	failed, was     int
	told            bool
}

func (c *toldChanges) observe(e *history.Event) {
	switch e.Kind {
	case history.WorkerRegistered:
		c.registered, c.registeredAt = c.registered+1, e.At
	case history.Transition:
		if e.From == execution.Requested && e.To == execution.Scheduling {
			if c.claimed == nil {
				c.claimed = make(map[string]time.Duration)
			}
			c.claimed[e.Process] = e.At
		}
	default:
	}
}

// probeTakes is how long before a probe its round may have read which incarnations there are.
const probeTakes = 5 * time.Second

// changed says that the last probe has made the address unreachable, or reachable again.
func (u *probedURL) changed() bool {
	return (u.was >= oracle.UnreachableAfter) != (u.failed >= oracle.UnreachableAfter)
}

// probed notes a probe, and judges whether what the one before has changed was told.
func (c *toldChanges) probed(by any, process, url string, now time.Duration, failed bool) {
	if c.s.config.Executor.HealthProbes != config.Act {
		return // what is only observed is in the database, and invariant 12 judges it
	}
	if c.probes == nil {
		c.probes = make(map[string]*probedBy)
	}
	of := c.probes[process]
	if of == nil || of.process != by {
		of = &probedBy{process: by, at: make(map[string]*probedURL)}
		c.probes[process] = of
	}
	u := of.at[url]
	if u == nil {
		// A worker that is seen first is taken for reachable.
		u = &probedURL{known: true}
		of.at[url] = u
	} else {
		c.s.judged(c.i)
		if u.known && u.wasKnown && u.changed() && !u.told {
			c.s.violate(c.i, 0, "%s has found at %v that the health endpoint %s is %s, after it was not, and has not told so in its log before it probes it again", process, u.last, url, reachability(u.failed))
		}
		// A round that left the worker out forgets it, and an address that two workers have is counted for each.
		gap, interval := now-u.last, c.s.config.Executor.HealthCheckInterval
		if u.registered != c.registered || c.registeredAt > u.last-probeTakes || gap > interval+interval/2 || gap < interval/2 {
			u.known = false
		}
	}
	u.last, u.registered, u.told = now, c.registered, false
	u.was, u.wasKnown = u.failed, u.known
	if u.failed++; !failed {
		u.failed, u.known = 0, true
	}
}

func reachability(failed int) string {
	if failed >= oracle.UnreachableAfter {
		return "unreachable"
	}
	return "reachable"
}

// line judges a line that tells of a worker.
func (c *toldChanges) line(p Part, l Line) {
	if l.PassedOver {
		c.s.judged(c.i)
		if at, known := c.claimed[p.Process]; !known || at < l.Waited {
			c.s.violate(c.i, 0, "%s: %s tells that a worker is passed over, but has claimed nothing to place since it waited last, at %v", p.Process, p.Name, l.Waited)
		}
	}
	of := c.probes[p.Process]
	if !l.Probe || of == nil || of.at[l.URL] == nil {
		return
	}
	u := of.at[l.URL]
	if !u.known || !u.wasKnown {
		return
	}
	c.s.judged(c.i)
	switch {
	case !u.changed() || u.told:
		c.s.violate(c.i, 0, "%s: %s tells that the health endpoint %s has changed, but it was and is %s: %d probes in a row had failed before the last one, and %d after it", p.Process, p.Name, l.URL, reachability(u.failed), u.was, u.failed)
	case l.Reachable != (u.failed < oracle.UnreachableAfter):
		c.s.violate(c.i, 0, "%s: %s tells that reachable=%v of the health endpoint %s, which is %s", p.Process, p.Name, l.Reachable, l.URL, reachability(u.failed))
	}
	u.told = true
}
