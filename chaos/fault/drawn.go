package fault

import (
	"time"

	"go.yaml.in/yaml/v4"

	"handoff/core/config/yamlfile"
)

// Drawn is a duration in a scenario file: drawn for each run between two bounds, or fixed if they are equal.
type Drawn struct {
	Least, Most time.Duration
	// Log reports whether the duration is drawn log-uniformly.
	Log bool
}

// DrawnSchema accepts a fixed or a drawn duration; where is the key that holds it.
func DrawnSchema(where string) yamlfile.Schema {
	drawn := drawnShape(where).Object()
	drawn["minProperties"], drawn["maxProperties"] = 1, 1
	return yamlfile.Schema{"oneOf": []any{yamlfile.DurationSchema(), drawn}}
}

func drawnShape(where string) yamlfile.Shape {
	return yamlfile.NewShape(where,
		yamlfile.Optional("uniform", "a drawn duration: the shortest and the longest", yamlfile.SpanSchema()),
		yamlfile.Optional("log_uniform",
			"a drawn duration: the shortest (above 0s) and the longest. The logarithm is drawn uniformly, so from 1s to 100s half of the draws are under 10s",
			yamlfile.SpanSchema()),
	)
}

// ReadDrawn reads 10s, {uniform: [1s, 5s]} or {log_uniform: [1s, 1h]}; no bound may be below least.
func ReadDrawn(r *yamlfile.Reader, n *yaml.Node, what string, least time.Duration) Drawn {
	if n.Kind != yaml.MappingNode {
		d, _ := r.Duration(n, what, least)
		return Drawn{d, d, false}
	}
	m, ok := r.Mapping(n, drawnShape(what))
	if !ok {
		return Drawn{}
	}
	uniform, log := m.At("uniform"), m.At("log_uniform")
	switch {
	case uniform != nil && log != nil:
		r.Refuse(m.Keys["log_uniform"], "%s is drawn in two ways, uniform and log_uniform: write one of them", what)
	case uniform != nil:
		from, to, _ := r.Span(uniform, "uniform", least)
		return Drawn{from, to, false}
	case log != nil:
		from, to, _ := r.Span(log, "log_uniform", max(least, time.Millisecond))
		return Drawn{from, to, true}
	case !m.Invalid:
		r.Unknown(n, what+" does not say how it is drawn", "", drawnShape(what).Names())
	}
	return Drawn{}
}
