package mutant

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants workers whose results make wrong statements about retries.

func init() {
	registerMutants(
		Mutant{
			Name: "not-retried-unsaid", Source: "D49", Expected: 13, Scenario: "exit-codes",
			About: "the message of a failure does not say that none of the retries that are left follows",
			Store: changeMessages(func(f *store.Finish) string {
				return strings.TrimSuffix(note.ReplaceAllString(f.Result.Message, ""), "\n")
			}),
		},
		Mutant{
			Name: "not-retried-said-of-retries", Source: "D49", Expected: 13, Scenario: "exit-codes",
			About: "the message of a failure says that it is not retried, although a retry follows",
			Store: changeMessages(func(f *store.Finish) string {
				if f.Reason != execution.Transient {
					return f.Result.Message
				}
				return f.Result.Message + "\nNot retried, with 1 of 1 retries left, because the reason is transient, which is never retried (docs/actions.md, What is retried)."
			}),
		},
		Mutant{
			Name: "not-retried-miscounts", Source: "D49", Expected: 13, Scenario: "exit-codes",
			About: "the message of a retry that is not retried counts all retries as left",
			Store: changeMessages(func(f *store.Finish) string {
				return note.ReplaceAllStringFunc(f.Result.Message, func(line string) string {
					most := note.FindStringSubmatch(line)[1]
					_, rest, _ := strings.Cut(line, " of ")
					return "Not retried, with " + most + " of " + rest
				})
			}),
		},
		Mutant{
			Name: "not-retried-names-no-code", Source: "D48", Expected: 13, Scenario: "exit-codes",
			About: "the message of a failure that is not retried names its reason instead of its exit code",
			Store: changeMessages(func(f *store.Finish) string {
				return note.ReplaceAllStringFunc(f.Result.Message, func(line string) string {
					begin, _, coded := strings.Cut(line, "because exit code ")
					if !coded {
						return line
					}
					return begin + "because the reason is " + f.Reason.String() + ", which is never retried (docs/actions.md, What is retried)."
				})
			}),
		},
	)
}

// messageChangeStore is a store of a worker that changes the messages of actions' own failures.
type messageChangeStore struct {
	store.Store
	p Process
	// change returns the message that is stored.
	change func(f *store.Finish) string
}

// note matches the line which states that a failure is not retried.
var note = regexp.MustCompile(`(?m)^Not retried, with \d+ of (\d+) retries left, because .*$`)

// Finish implements store.Worker.
func (m *messageChangeStore) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	changed := slices.Clone(fs)
	for i := range changed {
		f := &changed[i]
		if f.To != execution.Failed || !f.Reason.OfAction() {
			continue
		}
		if message := m.change(f); message != f.Result.Message {
			m.p.Acted("said something else about retries in a result", f.Key.ID)
			f.Result.Message = message
		}
	}
	return m.Store.Finish(ctx, w, changed)
}

// changeMessages makes each worker store other messages of failures.
func changeMessages(change func(f *store.Finish) string) func(Process, store.Store) store.Store {
	return ofWorker(func(p Process, s store.Store) store.Store { return &messageChangeStore{s, p, change} })
}
