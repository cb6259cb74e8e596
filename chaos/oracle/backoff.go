package oracle

import (
	"math/big"
	"strconv"
	"strings"
	"time"

	"handoff/core/config"
)

// Window is the range from which a delay is drawn.
type Window struct{ Least, Most time.Duration }

// Holds reports whether a delay lies in the window. Delays are whole milliseconds. Rounding the delay, its
// jitter and the preceding steps may make it three milliseconds shorter. tolerance is the maximum difference
// between the clock of the part that drew the delay and the observer's clock.
func (w Window) Holds(delay, tolerance time.Duration) bool {
	return delay >= w.Least-3*time.Millisecond-tolerance && delay <= w.Most+tolerance
}

// Backoffs computes the windows of a configuration: `retry.base_backoff_secs` ×
// `retry.backoff_multiplier`ⁿ, ± `retry.jitter_factor`, then the cap `retry.max_backoff_secs`
// (docs/retries.md). They are computed exactly, with both factors to three decimals.
//
// A window is computed at its first use, so a Backoffs is not safe for concurrent use.
type Backoffs struct {
	longest            time.Duration
	multiplier, jitter *big.Int // thousandths
	// grown is the next delay without jitter and cap, in nanoseconds, multiplied by scale. scale is 1000 to
	// the power of the number of windows so far.
	grown, scale *big.Int
	windows      []Window
	// flat reports whether all later windows equal the last window.
	flat bool
}

// NewBackoffs returns the Backoffs of a valid configuration.
func NewBackoffs(r *config.Retry) *Backoffs {
	return &Backoffs{
		longest:    time.Duration(r.MaxBackoffSecs) * time.Second,
		multiplier: inThousandths(r.BackoffMultiplier), jitter: inThousandths(r.JitterFactor),
		grown: big.NewInt(r.BaseBackoffSecs * int64(time.Second)), scale: big.NewInt(1),
	}
}

// inThousandths reads a factor from its decimal text.
func inThousandths(factor float64) *big.Int {
	n, _ := new(big.Int).SetString(strings.Replace(strconv.FormatFloat(factor, 'f', 3, 64), ".", "", 1), 10)
	return n
}

// After returns the window of the delay that follows n earlier delays; n is at least 0.
func (b *Backoffs) After(n int) Window {
	for len(b.windows) <= n && !b.flat {
		b.addWindow()
	}
	return b.windows[min(n, len(b.windows)-1)]
}

func (b *Backoffs) addWindow() {
	thousand := big.NewInt(1000)
	bound := func(factor *big.Int) time.Duration {
		d := new(big.Int).Mul(b.grown, factor)
		if d.Quo(d, new(big.Int).Mul(b.scale, thousand)); !d.IsInt64() || time.Duration(d.Int64()) > b.longest {
			return b.longest
		}
		return time.Duration(d.Int64())
	}
	w := Window{bound(new(big.Int).Sub(thousand, b.jitter)), bound(new(big.Int).Add(thousand, b.jitter))}
	b.windows = append(b.windows, w)
	b.flat = w.Least == b.longest || b.grown.Sign() == 0 || b.multiplier.Cmp(thousand) == 0
	b.grown.Mul(b.grown, b.multiplier)
	b.scale.Mul(b.scale, thousand)
}

// MostGrowth is the maximum n that uncounted take-backs lead to ("Numbers that no key changes").
const MostGrowth = 5

// TakenBack returns n, the argument of Backoffs.After, for the delay after a take-back. counted is the number
// of earlier dispatches that counted, and epoch the epoch that the take-back ends: each earlier dispatch and
// take-back has raised the epoch by one.
func TakenBack(counted int, epoch int64) (n int) {
	if pairs := int((epoch - 1) / 2); pairs > counted {
		return max(counted, min(pairs, MostGrowth))
	}
	return counted
}
