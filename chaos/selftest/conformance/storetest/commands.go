package storetest

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"
)

// op is the kind of a command: one for every method of the store that clients and processes share, and one
// for time.
type op uint8

const (
	opCreate op = iota
	opClaimForScheduling
	opDispatch
	opClaim
	opFinish
	opOrchestrate
	opAdvance
	opHeartbeat
	opReclaim
	opPark
	opFind
	opRegister
	opLifecycle
	opMarkPublished
	opReap
	opRelease
	opExecutions
	opPutActions
	opKeepRefused
	opStoreDeadLetter
	opCancel
	opChain
	opList
	opForgetKeys
	opFreeSlots
	opSetCordon
	opClock
	opActions
	opSettle
	opDispatchDue
	ops = int(opDispatchDue) + 1
)

var opNames = [ops]string{
	"Create", "ClaimForScheduling", "Dispatch", "Claim", "Finish", "Orchestrate", "Advance", "Heartbeat", "Reclaim",
	"Park", "Find", "Register", "SetLifecycle", "MarkPublished", "Reap", "Release", "Executions", "PutActions",
	"KeepRefusedResult", "StoreDeadLetters", "Cancel", "Chain", "List", "ForgetKeys", "FreeSlots", "SetCordon",
	"Clock", "Actions", "SettleChildren", "DispatchDue",
}

// weights are the relative frequencies of the commands. Rare states need the common commands first.
var weights = [ops]int{
	opCreate: 5, opClaimForScheduling: 8, opDispatch: 13, opClaim: 14, opFinish: 8, opOrchestrate: 5, opAdvance: 5, opHeartbeat: 7,
	opReclaim: 12, opPark: 5, opFind: 9, opRegister: 4, opLifecycle: 4, opMarkPublished: 3, opReap: 4, opRelease: 2, opExecutions: 1,
	opPutActions: 1, opKeepRefused: 1, opStoreDeadLetter: 1,
	opCancel: 5, opChain: 1, opList: 1, opForgetKeys: 1, opFreeSlots: 1, opSetCordon: 2, opClock: 1, opActions: 1, opSettle: 4, opDispatchDue: 6,
}

// item is one part of a batch: its subject, and the numbers that vary it.
type item struct{ row, worker, twist, a, b int }

// command is one step of a sequence, as data: every subject gets the same. Its numbers are below 16. A number
// that selects something is taken modulo the number of choices. The largest numbers select almost valid
// variants, so that shrinking makes a command plain.
type command struct {
	op    op
	a, b  int
	items []item
}

// String shows the command in the text of a failure.
func (c command) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d %d", opNames[c.op], c.a, c.b)
	for _, it := range c.items {
		fmt.Fprintf(&b, " {%d %d %d %d %d}", it.row, it.worker, it.twist, it.a, it.b)
	}
	return b.String()
}

// sequenceGenerator generates sequences of this length.
func sequenceGenerator(length int) *rapid.Generator[[]command] {
	var kinds []op
	for o, n := range weights {
		for range n {
			kinds = append(kinds, op(o)) //nolint:gosec // an index of the table
		}
	}
	number := rapid.Custom(func(t *rapid.T) int { return drawEvenly(t, 4) })
	items := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) item {
		return item{
			number.Draw(t, "row"), number.Draw(t, "worker"), number.Draw(t, "twist"), number.Draw(t, "a"), number.Draw(t, "b"),
		}
	}), 1, 3)
	one := rapid.Custom(func(t *rapid.T) command {
		c := command{a: number.Draw(t, "a"), b: number.Draw(t, "b"), items: items.Draw(t, "items")}
		c.op = kinds[drawEvenly(t, 10)%len(kinds)]
		return c
	})
	return rapid.SliceOfN(one, length, length)
}

// drawEvenly draws a number with this many bits. The library's own integers prefer small ones, which suits
// values and not choices. Its single bits are unbiased.
func drawEvenly(t *rapid.T, bits int) int {
	n := 0
	for range bits {
		n *= 2
		if rapid.Bool().Draw(t, "bit") {
			n++
		}
	}
	return n
}
