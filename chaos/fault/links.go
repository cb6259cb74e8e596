package fault

import (
	"fmt"

	"go.yaml.in/yaml/v4"

	"handoff/core/config/yamlfile"
)

// This file holds the common parts of faults that strike links.

// link holds the process and the other ends that a fault on links names in the file.
type link struct {
	Target string
	Ends   []string
	Way    Direction
}

// Strikes implements Fault.
func (l *link) Strikes() Strikes { return Strikes{Target: l.Target, Ends: l.Ends} }

// readLink reads the keys of linkKeys.
func (l *link) readLink(r *Reader, process, ends string) {
	l.Target, l.Way = r.Process(r.At(process)), Both
	if n := r.At(ends); n != nil {
		l.Ends, _ = r.Choices(n, "other end", ends, OtherEnds())
		if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
			r.Unknown(n, ends+" is empty", "", OtherEnds())
		}
	}
	if n := r.At("direction"); n != nil {
		way, _ := r.Choice(n, "direction", directionNames())
		l.Way = Direction(way)
	}
}

// describeLink names the fault, for example "partition shell-1 from broker".
func (l *link) describeLink(what, to string) string {
	way := ""
	if l.Way == Incoming || l.Way == Outgoing {
		way = ", " + string(l.Way)
	}
	return fmt.Sprintf("%s %s %s %s%s", what, l.Target, to, andList(l.Ends), way)
}

// affectLinks applies an effect to every link that the fault strikes, until undo.
func (l *link) affectLinks(x *Injection, w Links, e Effect) (undo func(), err error) {
	var heal []func()
	for _, process := range x.Targets {
		for _, end := range l.Ends {
			h, err := w.Affect(x, process, end, l.Way, e)
			if err != nil {
				InOrder(heal)()
				return nil, err
			}
			heal = append(heal, h)
		}
	}
	return InOrder(heal), nil
}

// linkKeys returns the keys of a fault on links: process first, then ends, then the kind's own keys.
func linkKeys(process, about, ends string, own ...yamlfile.Key) []yamlfile.Key {
	keys := []yamlfile.Key{
		processKey(process, about),
		yamlfile.Required(ends, "the other ends", yamlfile.SomeSetOf(yamlfile.Enum(OtherEnds()))),
	}
	return append(append(keys, own...), forKey())
}

func directionKey(about string) yamlfile.Key {
	return yamlfile.Optional("direction", about, yamlfile.Enum(directionNames()))
}
