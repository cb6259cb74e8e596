package scenario

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"handoff/core/config/yamlfile"
)

// This file reads faults of clocks. The database's clock decides leases and deadlines; a process's wall
// clock should decide nothing, and its monotonic clock when the process fences itself.

// maxClockDrift is what the simulator's clocks can do, in parts per million: no real one comes near it.
const maxClockDrift = 100_000

const (
	shiftPattern = `^[+-]?([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	driftPattern = `^[+-]?[0-9]{1,2}(\.[0-9]{1,4})? ?%$`
)

var driftForm = regexp.MustCompile(driftPattern)

// clock says that a kind is a fault of a clock.
func (k FaultKind) clock() bool { return k == ClockOffset || k == ClockStep || k == ClockDrift }

func clockShape(k FaultKind) yamlfile.Shape {
	by := yamlfile.Required("by", "how far it is moved; with a minus sign, backwards", yamlfile.Schema{"type": "string", "pattern": shiftPattern})
	if k == ClockDrift {
		by = yamlfile.Required("by", "how much too fast it runs; with a minus sign, too slow; at most 10%", yamlfile.Schema{"type": "string", "pattern": driftPattern})
	}
	return yamlfile.NewShape(string(k),
		yamlfile.Required("of", "the process, or database", yamlfile.StringSchema()),
		by,
	)
}

func shiftsClock(k FaultKind) func(*loader, *yaml.Node, *Fault) {
	return func(l *loader, n *yaml.Node, f *Fault) {
		f.Kind = k
		m, ok := l.Mapping(n, clockShape(k))
		if !ok {
			return
		}
		if m.Has("of") && l.clusterOK {
			f.Target, _ = l.Choice(m.At("of"), "clock", append(l.s.Cluster.targets(), Database))
		}
		switch {
		case !m.Has("by"):
		case k == ClockDrift:
			f.DriftPerMillion = l.drift(m.At("by"))
		default:
			f.Shift = l.shift(m.At("by"))
		}
	}
}

// shift reads a duration that may be negative.
func (l *loader) shift(n *yaml.Node) time.Duration {
	if n.Kind == yaml.ScalarNode {
		if d, err := time.ParseDuration(n.Value); err == nil && d < 0 {
			if d < -yamlfile.MaxDuration {
				l.Refuse(n, "by is %s, must be from -%s to %s", n.Value, yamlfile.Short(yamlfile.MaxDuration), yamlfile.Short(yamlfile.MaxDuration))
				return 0
			}
			return d
		}
		if d, err := time.ParseDuration(n.Value); err == nil && d > 0 && strings.HasPrefix(n.Value, "+") && d <= yamlfile.MaxDuration {
			return d
		}
	}
	d, ok := l.Duration(n, "by", 0)
	if ok && d == 0 {
		l.Refuse(n, "by is %s, which moves no clock", n.Value)
	}
	return d
}

// drift reads a signed percentage as parts per million.
func (l *loader) drift(n *yaml.Node) int64 {
	if n.Kind != yaml.ScalarNode || !driftForm.MatchString(n.Value) {
		l.Refuse(n, "by must be a percentage such as 1%% or -0.5%%, is %s", yamlfile.KindOf(n))
		return 0
	}
	v, _ := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(n.Value, "%")), 64) // the form was checked
	ppm := int64(math.Round(v * 10_000))
	if ppm == 0 || ppm > maxClockDrift || ppm < -maxClockDrift {
		l.Refuse(n, "by is %s, must be from -10%% to 10%%, and not 0", n.Value)
		return 0
	}
	return ppm
}
