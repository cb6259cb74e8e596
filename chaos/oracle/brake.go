package oracle

import (
	"math/big"
	"strconv"
	"time"

	"handoff/core/config"
)

// Brakes computes when the brake stops the lease monitor from declaring workers lost: at least
// `executor.brake_min_workers` were alive a lease ago, and the leases of more than `executor.brake_fraction`
// of them are over (docs/contract.md; "more than half of at least four", docs/ownership.md).
type Brakes struct {
	// Least is the number of workers that must have been alive.
	Least int
	// over[n] is the minimum number of expired leases at which the brake holds if there are n workers.
	over     []int
	fraction *big.Rat
}

// NewBrakes returns the Brakes of a configuration.
func NewBrakes(x *config.Executor) *Brakes {
	return &Brakes{Least: x.BrakeMinWorkers, fraction: exactDecimal(x.BrakeFraction)}
}

// exactDecimal returns the decimal number in the configuration, of which f is the nearest float64.
func exactDecimal(f float64) *big.Rat {
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
	return r
}

// Hold reports whether the brake holds when the leases of `over` of `alive` workers have expired. Neither
// is negative.
func (b *Brakes) Hold(alive, over int) bool {
	if alive < b.Least {
		return false
	}
	for n := len(b.over); n <= alive; n++ {
		share := new(big.Rat).Mul(b.fraction, new(big.Rat).SetInt64(int64(n)))
		// This is the smallest integer above the share: its integral part, plus one.
		b.over = append(b.over, int(new(big.Int).Quo(share.Num(), share.Denom()).Int64())+1)
	}
	return over >= b.over[alive]
}

// HeldFor returns how long the brake holds: two leases (docs/ownership.md).
func HeldFor(w *config.Worker) time.Duration { return 2 * Lease(w) }

// Between is the interval at which the brake then lets workers through (docs/executor.md: one a second).
const Between = time.Second
