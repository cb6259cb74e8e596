package fault

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"handoff/core/config/yamlfile"
)

// This file holds the common parts of clock faults. The database's clock decides leases and deadlines. A
// process's wall clock should affect nothing; its monotonic clock determines when the process fences itself.

// maxDrift is the largest drift that the simulator supports, in parts per million: much larger than in real
// clocks.
const maxDrift = 100_000

const (
	shiftPattern = `^[+-]?([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	driftPattern = `^[+-]?[0-9]{1,2}(\.[0-9]{1,4})? ?%$`
)

var driftForm = regexp.MustCompile(driftPattern)

// clockShift is a fault that moves a clock.
type clockShift struct {
	Target string
	// By is the shift; negative means backwards.
	By time.Duration
}

// Read implements Fault.
func (c *clockShift) Read(r *Reader) {
	c.Target = r.Clock(r.At("of"))
	if n := r.At("by"); n != nil {
		c.By = r.readShift(n)
	}
}

// Strikes implements Fault.
func (c *clockShift) Strikes() Strikes { return Strikes{Target: c.Target} }

// Lasts implements Lasting. After a clock was set back, a process that waits for a time on it waits longer.
func (c *clockShift) Lasts(b Bounds) time.Duration { return b.For + max(c.By, -c.By) }

// describeShift names the fault, for example "clock offset shell-1".
func (c *clockShift) describeShift(kind string) string { return spacedName(kind) + " " + c.Target }

// moveClocks moves the clocks of the struck processes' current instances.
func (c *clockShift) moveClocks(x *Injection, w Clocks) (back func()) {
	var undo []func()
	for _, process := range x.Targets {
		undo = append(undo, w.ShiftClock(x, process, c.By))
	}
	return InOrder(undo)
}

// endAfter ends a fault that moved the database's clock backwards once the clock has caught up. Until then,
// everything that waits for a time on that clock waits longer.
func (i *Injection) endAfter(behind time.Duration) { i.After(max(0, behind), i.End) }

func clockKeys(by yamlfile.Key) []yamlfile.Key {
	return []yamlfile.Key{processKey("of", "the process, or database"), by}
}

func shiftKey() yamlfile.Key {
	return yamlfile.Required("by", "how far it is moved; with a minus sign, backwards", yamlfile.Schema{"type": "string", "pattern": shiftPattern})
}

// readShift reads a duration that may be negative.
func (r *Reader) readShift(n *yaml.Node) time.Duration {
	if n.Kind == yaml.ScalarNode {
		if d, err := time.ParseDuration(n.Value); err == nil && d < 0 {
			if d < -yamlfile.MaxDuration {
				r.Refuse(n, "by is %s, must be from -%s to %s", n.Value, yamlfile.Short(yamlfile.MaxDuration), yamlfile.Short(yamlfile.MaxDuration))
				return 0
			}
			return d
		}
		if d, err := time.ParseDuration(n.Value); err == nil && d > 0 && strings.HasPrefix(n.Value, "+") && d <= yamlfile.MaxDuration {
			return d
		}
	}
	d, ok := r.Duration(n, "by", 0)
	if ok && d == 0 {
		r.Refuse(n, "by is %s, which moves no clock", n.Value)
	}
	return d
}

// readDrift reads a signed percentage as parts per million.
func (r *Reader) readDrift(n *yaml.Node) int64 {
	if n.Kind != yaml.ScalarNode || !driftForm.MatchString(n.Value) {
		r.Refuse(n, "by must be a percentage such as 1%% or -0.5%%, is %s", yamlfile.KindOf(n))
		return 0
	}
	v, _ := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(n.Value, "%")), 64) // can't fail: driftForm matched
	ppm := int64(math.Round(v * 10_000))                                                //detlint:ok one exact multiplication, rounded to a whole number
	if ppm == 0 || ppm > maxDrift || ppm < -maxDrift {
		r.Refuse(n, "by is %s, must be from -10%% to 10%%, and not 0", n.Value)
		return 0
	}
	return ppm
}
