package mutant

import (
	"slices"
	"strconv"
	"time"

	"handoff/chaos/policies"
	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/executor"
	"handoff/core/host"
	"handoff/core/store"
)

// This file plants mistakes into the core's tables and pure policies, one for each kind of question
// that is asked about them beside a run. Most have an effect only at a bound that hardly any run
// meets.

func init() {
	registerMade(answering(
		wrong{"claim-expires-late", "D5", "the default of executor.claim_expiry is twice as long", func(c *policies.Core) {
			right := c.Default
			c.Default = func(p config.Profile) config.Config {
				d := right(p)
				d.Executor.ClaimExpiry *= 2
				return d
			}
		}},
		wrong{"managers-may-claim", "D16", "the transition table lets the execution manager cancel a scheduled execution", func(c *policies.Core) {
			right := c.May
			c.May = func(by execution.Part, from, to execution.Status) bool {
				return right(by, from, to) || by == execution.ExecutionManager && from == execution.Scheduled && to == execution.Cancelled
			}
		}},
		wrong{"reasons-read-as-none", "D48", "an unknown failure reason is read as none, without an error", func(c *policies.Core) {
			right := c.ParseReason
			c.ParseReason = func(name string) (execution.Reason, error) {
				r, _ := right(name)
				return r, nil
			}
		}},
		wrong{"canceling-is-not-claimed", "D14", "a canceling execution counts as not owned by a worker", func(c *policies.Core) {
			c.Claimed = func(s execution.Status) bool { return s == execution.Running }
		}},
		wrong{"one-limit-read", "D9", "only the first of the limits that a request has set is read back", func(c *policies.Core) {
			right := c.LimitsNamed
			c.LimitsNamed = func(names []string, a execution.Action) execution.Limits { return right(names[:min(1, len(names))], a) }
		}},
		wrong{"exit-codes-read-signed", "D48", "an exit code above 127 counts as undeclared, as if it were negative", func(c *policies.Core) {
			right := c.ExitReason
			c.ExitReason = func(code int, retried execution.ExitCodes) execution.Reason {
				if code > 127 {
					retried = execution.ExitCodes{}
				}
				return right(code, retried)
			}
		}},
		wrong{"backoff-never-longer", "D52", "the jitter makes a backoff shorter and never longer", func(c *policies.Core) {
			right := c.Backoff
			c.Backoff = func(r config.Retry, n int, draw func(uint64) uint64) time.Duration {
				return right(r, n, func(n uint64) uint64 { return draw(n/2 + 1) })
			}
		}},
		wrong{"probe-late", "D43", "an unhealthy worker gets its half-open probe one nanosecond too late", func(c *policies.Core) {
			c.Roster = roster(c, func(w *store.WorkerRow, _ config.Config) { w.Figures.LastFailure-- })
		}},
		wrong{"ahead-at-the-bound", "D42", "a worker that has been full for exactly a quarter of the dispatch timeout still gets more than its capacity", func(c *policies.Core) {
			c.Roster = roster(c, func(w *store.WorkerRow, _ config.Config) { w.FullFor = max(0, w.FullFor-1) })
		}},
		wrong{"pass-is-never-full", "D22", "a pass that got as many executions as it asked for concludes that no more are waiting", func(c *policies.Core) {
			right := c.Filled
			c.Filled = func(ds []store.Demand, pools []int, rows []execution.Execution) (bool, int) {
				_, others := right(ds, pools, rows)
				return false, others
			}
		}},
		wrong{"lease-watched-too-long", "D35", "an execution waits one nanosecond longer than the lease for a worker whose lease is over only by the database's clock", func(c *policies.Core) {
			right := c.Leases
			c.Leases = func(lease time.Duration) (func(time.Duration, []store.WorkerRow), func(time.Duration, []store.WorkerRow, *execution.Execution) bool) {
				return right(lease + 1)
			}
		}},
		wrong{"absence-by-avoidance", "D10", "executions that avoid different workers count as different needs, whose grace begins anew", func(c *policies.Core) {
			right := c.Absences
			c.Absences = func(patience time.Duration) (func(time.Duration, executor.Asked), func(*execution.Execution) (least, most time.Duration)) {
				look, of := right(patience)
				return look, func(row *execution.Execution) (least, most time.Duration) {
					other := *row
					other.Pinned = row.Avoid
					return of(&other)
				}
			}
		}},
		wrong{"outage-at-the-bound", "D47", "a database that was silent for exactly as long as is allowed counts as away", func(c *policies.Core) {
			right := c.Outage
			c.Outage = func(x config.Config, now time.Duration) (func(time.Duration), func(now, d time.Duration) bool) {
				x.Executor.ReconcileInterval--
				return right(x, now)
			}
		}},
		wrong{"owner-watched-too-short", "D14", "an execution that ran at a superseded incarnation is taken back one nanosecond before the lease is over", func(c *policies.Core) {
			right := c.Owners
			c.Owners = func(h host.Host, lease time.Duration) (func([]store.WorkerRow), func(execution.Incarnation), func(*execution.Execution) bool) {
				return right(h, lease-1)
			}
		}},
		wrong{"brake-lets-two-go", "D47", "after its hold the brake lets two workers go at a time", func(c *policies.Core) {
			right := c.Brake
			c.Brake = func(x config.Config) func(time.Duration, []store.Reap, int) []store.Reap {
				admit := right(x)
				return func(now time.Duration, over []store.Reap, alive int) []store.Reap {
					if n := len(admit(now, over, alive)); n == 1 {
						return over[:min(2, len(over))]
					}
					return admit(now, over, alive)
				}
			}
		}},
		wrong{"right-moves-back", "D15", "a heartbeat that is reported late moves the end of the worker's right back", func(c *policies.Core) {
			right := c.Lease
			c.Lease = func(h host.Host, w config.Worker, granted time.Duration) (func(time.Duration) bool, func() (time.Duration, time.Duration), func() bool) {
				_, deadline, fence := right(h, w, granted)
				return func(sent time.Duration) bool {
					_, deadline, fence = right(h, w, sent)
					return true
				}, func() (time.Duration, time.Duration) { return deadline() }, func() bool { return fence() }
			}
		}},
		wrong{"keys-in-base-nine", "D31", "the key of a worker's cancellations has its number in base nine", func(c *policies.Core) {
			right := c.Workers
			c.Workers = func(r config.RabbitMQ, id execution.WorkerID) broker.Topology {
				t := right(r, id)
				if id >= 9 {
					t.Bindings[1].Pattern = "execution.cancel.worker." + strconv.FormatInt(int64(id), 9)
				}
				return t
			}
		}},
		wrong{"texts-cut-in-a-character", "D26", "a string that is too long is cut in the middle of a character", func(c *policies.Core) {
			right := c.Bounded
			c.Bounded = func(d store.DeadLetter) store.DeadLetter {
				b := right(d)
				if len(b.Outcome) < len(d.Outcome) {
					b.Outcome = d.Outcome[:min(len(d.Outcome), len(b.Outcome)+1)]
				}
				return b
			}
		}},
		wrong{"short-claims-allowed", "D4", "a claim may expire as soon as two statements have timed out", func(c *policies.Core) {
			right := c.Validate
			c.Validate = func(x config.Config) []config.Problem {
				if x.Executor.ClaimExpiry == 2*x.Executor.StatementTimeout {
					x.Executor.ClaimExpiry++
				}
				return right(x)
			}
		}},
		wrong{"started-all-the-same", "D28", "a daemon with invalid settings starts all the same", func(c *policies.Core) {
			c.Started = func([]config.Flag) []error { return nil }
		}},
		wrong{"hints-read-slowly", "D31", "the fast reader of hints leaves each hint of several changes to the reader of all messages", func(c *policies.Core) {
			right := c.Readers
			c.Readers = func(body []byte) policies.Readers {
				r := right(body)
				r.OK = r.OK && len(r.Fast.Changes) == 1
				return r
			}
		}},
		wrong{"full-blocks-split", "S2", "a dispatch that would just fill a block begins the next one", func(c *policies.Core) {
			right := c.Pack
			c.Pack = func(rows []execution.Execution, most int, blocks func(execution.Incarnation) bool) [][]int {
				longer := slices.Clone(rows)
				for i := range longer {
					longer[i].Action.Entrypoint += "x"
				}
				return right(longer, most, blocks)
			}
		}},
	)...)
}

// wrong is a mistake in an answer of the core.
type wrong struct {
	name, source, about string
	plant               func(*policies.Core)
}

// answering makes mutants from mistakes.
func answering(list ...wrong) (mutants []func() *Mutant) {
	for _, w := range list {
		mutants = append(mutants, func() *Mutant {
			return &Mutant{Name: w.name, Source: w.source, About: w.about, Expected: 31, Scenario: "crash-after-heartbeat", Answers: w.plant}
		})
	}
	return mutants
}

// roster is the core's roster, from slightly changed workers.
func roster(c *policies.Core, change func(*store.WorkerRow, config.Config)) func([]store.WorkerRow, config.Config, map[execution.Incarnation]int, func(uint64) uint64) executor.Asked {
	right := c.Roster
	return func(workers []store.WorkerRow, x config.Config, failed map[execution.Incarnation]int, draw func(uint64) uint64) executor.Asked {
		for i := range workers {
			change(&workers[i], x)
		}
		return right(workers, x, failed, draw)
	}
}
