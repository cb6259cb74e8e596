package oracle

import (
	"time"

	"handoff/core/execution"
)

// The bounds of messages ("Messages" and "Blocks" in docs/queues.md).
const (
	// LongestBody is the length of the longest body, in bytes.
	LongestBody = 1 << 20
	// MostDispatches is the largest number of dispatches in a block.
	MostDispatches = 1000
	// LongestBlock bounds the lengths of the dispatches of a block, in bytes.
	LongestBlock = 128 << 10
)

// DispatchLength is the length of a dispatch in a block, as "Blocks" in docs/queues.md counts it:
// 256 bytes, its parameters, and twice its names.
func DispatchLength(a *execution.Action, parameters int) int {
	return 256 + parameters + 2*len(a.Ref+a.Runtime+a.Entrypoint)
}

// Row is a dispatch that is to be put into a message.
type Row struct {
	Incarnation execution.Incarnation
	Timeout     time.Duration
	Length      int
	// Alone says that the incarnation does not read blocks.
	Alone bool
}

// Messages says which rows share a message, as indexes into rows, by the first row of each ("Blocks"
// in docs/queues.md): a row joins the last message for its incarnation and its dispatch timeout if
// there is room.
func Messages(rows []Row, most int) [][]int {
	var all [][]int
	for i, row := range rows {
		last := -1
		for n, message := range all {
			if first := rows[message[0]]; first.Incarnation == row.Incarnation && first.Timeout == row.Timeout {
				last = n
			}
		}
		if last >= 0 && !row.Alone && len(all[last]) < most {
			length := row.Length
			for _, other := range all[last] {
				length += rows[other].Length
			}
			if length <= LongestBlock {
				all[last] = append(all[last], i)
				continue
			}
		}
		all = append(all, []int{i})
	}
	return all
}
