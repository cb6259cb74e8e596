package postgrestest_test

import "slices"

// grows is an accepted growth of a call, in one shape or in all ("Find"), with dimensions, and the reason.
type grows struct {
	call       string
	growth     growth
	why        string
	dimensions []string
}

// Dimensions that consist of executions: of all, and of those that have not ended or are not
// handled.
var (
	executionsOf = append([]string{"finished", "keys", "old keys", "chain"}, openOf...)
	openOf       = []string{
		"children", "backlog", "pinned", "limited", "limited, free", "limited actions", "runtimes",
		"held slots", "scheduled", "running", "unhandled",
	}
)

// walked are the dimensions that a list without a status walks over. It finds running rows, which
// hold slots, by an index.
var walked = slices.DeleteFunc(slices.Clone(executionsOf), func(d string) bool { return d == "held slots" })

// held are the dimensions of held rows. findWalks explains why monitors walk over them.
var held = []string{"held slots", "scheduled", "running"}

const findWalks = "it walks what somebody holds, which is as much as the fleet has room for: an index for each monitor would be written by every claim"

// costGrowth lists everything that is not constant. Any other pair must not grow. A call that takes
// a list may grow in proportion to the list's length ("batch").
var costGrowth = []grows{
	{"Actions, a page", linear, "actions are few: what a page skips is sorted each time", []string{"actions", "limited actions"}},
	{"PutActions, one with slots", linear, "an action has as many slots as its concurrency says, and each is looked up", []string{"free slots"}},
	{"List, a filter that nothing passes", linear, "a page is a walk down the primary key; no index for lists makes the hot path pay", walked},
	{"Chain", linear, "it answers with each row of the chain", []string{"chain"}},
	{"Workers", linear, "it counts what each worker holds", []string{"held slots", "scheduled", "running"}},
	{
		"Survey", linear, "it counts the executions that have not ended or are not handled, and the dead letters that are open",
		append([]string{"open dead letters"}, openOf...),
	},
	{"Survey", linear, "it looks at each action for slots", []string{"actions"}},
	{"Find, overrun", linear, findWalks, held},
	{"Find, unanswered", linear, findWalks, held},
	{"FreeSlots, nothing to free", linear, "it looks for the execution of each slot that is held, once a minute", []string{"held slots", "limited actions"}},
	{"ClaimForScheduling", linear, "it looks once at each lane in which something waits: a runtime, and an action with slots", []string{"runtimes", "limited actions"}},
	{"DispatchDue", linear, "it looks once at each lane in which something waits: a runtime, and an action with slots", []string{"runtimes", "limited actions"}},
	{"DispatchDue, what is due", linear, "it counts what the workers hold that it dispatches to, which their limits bound", []string{"held slots", "scheduled", "running"}},
	{"Dispatch", linear, "it counts what the workers hold that it dispatches to, which their limits bound", []string{"held slots", "scheduled", "running"}},
	{"Reclaim, unclaimed", linear, "it counts what the workers hold that it takes from, which their limits bound", []string{"held slots", "scheduled", "running"}},
	{"ObserveReclaims", linear, "it counts what the workers hold of which it would take, which their limits bound", []string{"held slots", "scheduled", "running"}},
}

// costExceptions are calls that grow more than they may. Each is a defect to be fixed. The test fails when
// one no longer grows, so that its entry is removed together with the defect.
var costExceptions []grows

// findExpectation finds the entry of a list for a pair.
func findExpectation(list []grows, p pair) *grows {
	for i := range list {
		g := &list[i]
		if (g.call == p.call || g.call == methodOf(p.call)) && slices.Contains(g.dimensions, p.dimension) {
			return g
		}
	}
	return nil
}
