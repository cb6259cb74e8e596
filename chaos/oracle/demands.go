package oracle

import (
	"slices"

	"handoff/core/execution"
)

// Lane is the set of waiting executions with the same runtime and the same pinned worker, 0 for none.
type Lane struct {
	Runtime string
	Pinned  execution.WorkerID
}

// Demand is the number of executions of a lane that a pass may take: the free capacity of its workers.
type Demand struct {
	Lane
	Most int
	// Pool is the pool of the lane's workers, named by the index of its first worker. It is negative for the
	// capacity that a quarantined worker reserves for its pinned executions.
	Pool int
}

// Demands returns how many waiting executions a pass may take ("How many a pass takes", docs/executor.md), at
// most `most`. It returns a demand for each runtime with a fitting worker, and for each worker one for
// executions pinned to it. pools holds the total for each pool, by the index of its first worker. Workers
// with a common runtime form one pool, but executions pinned to a quarantined worker have a separate pool,
// because no other executions may use its capacity.
func (p Placement) Demands(fleet []Worker, most int) (demands []Demand, pools map[int]int) {
	pool := p.workerPools(fleet)
	pools = make(map[int]int)
	unpinned := make(map[string]int)
	for i := range fleet {
		w := &fleet[i]
		first, shared, alone := len(demands), 0, 0
		for _, runtime := range w.Runtimes {
			if !p.Fits(w, Request{Runtime: runtime}) {
				continue
			}
			free := max(0, p.Limit(fleet, w, Request{Runtime: runtime})-w.Load)
			own := max(0, p.Limit(fleet, w, Request{Runtime: runtime, Pinned: w.ID})-w.Load)
			at, known := unpinned[runtime]
			if !known {
				at = len(demands)
				unpinned[runtime] = at
				demands = append(demands, Demand{Lane{runtime, 0}, 0, pool[i]})
			}
			demands[at].Most += free
			demands = append(demands, Demand{Lane{runtime, w.ID}, own, pool[i]})
			shared, alone = max(shared, free), max(alone, own)
		}
		switch {
		case pool[i] < 0:
		case shared == 0 && alone > 0:
			for at := first; at < len(demands); at++ {
				if demands[at].Pinned == w.ID {
					demands[at].Pool = -1 - i
				}
			}
			pools[-1-i] = alone
			pools[pool[i]] += 0
		default:
			pools[pool[i]] += max(shared, alone)
		}
	}
	for i := range demands {
		demands[i].Most = min(most, demands[i].Most)
	}
	for first, room := range pools { //detlint:ok each is bounded by itself
		pools[first] = min(most, room)
	}
	return demands, pools
}

// workerPools returns, for each worker, the index of its pool's first worker, -1 if it fits no execution.
func (p Placement) workerPools(fleet []Worker) []int {
	pool := make([]int, len(fleet))
	share := func(a, b *Worker) bool {
		return slices.ContainsFunc(a.Runtimes, func(r string) bool {
			return p.Fits(a, Request{Runtime: r}) && p.Fits(b, Request{Runtime: r})
		})
	}
	for i := range pool {
		if pool[i] = i; !slices.ContainsFunc(fleet[i].Runtimes, func(r string) bool { return p.Fits(&fleet[i], Request{Runtime: r}) }) {
			pool[i] = -1
		}
	}
	for changed := true; changed; {
		changed = false
		for i := range fleet {
			for j := range fleet {
				if pool[i] >= 0 && pool[j] >= 0 && pool[i] < pool[j] && share(&fleet[i], &fleet[j]) {
					pool[j], changed = pool[i], true
				}
			}
		}
	}
	return pool
}
