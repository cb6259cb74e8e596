package fault

import (
	"fmt"

	"go.yaml.in/yaml/v4"

	"handoff/core/config/yamlfile"
)

// This file holds the common parts of faults that strike links.

// link holds the process and the other ends that a fault on links names.
type link struct {
	Target string
	Ends   []string
	Way    Direction
}

// Strikes implements Fault.
func (f *link) Strikes() Strikes { return Strikes{Target: f.Target, Ends: f.Ends} }

// read reads the keys of linkKeys.
func (f *link) read(r *Reader, process, ends string) {
	f.Target, f.Way = r.Process(r.At(process)), Both
	if n := r.At(ends); n != nil {
		f.Ends, _ = r.Choices(n, "other end", ends, OtherEnds())
		if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
			r.Unknown(n, ends+" is empty", "", OtherEnds())
		}
	}
	if n := r.At("direction"); n != nil {
		way, _ := r.Choice(n, "direction", directions())
		f.Way = Direction(way)
	}
}

// describe names the fault, for example "partition shell-1 from broker".
func (f *link) describe(what, to string) string {
	way := ""
	if f.Way == Incoming || f.Way == Outgoing {
		way = ", " + string(f.Way)
	}
	return fmt.Sprintf("%s %s %s %s%s", what, f.Target, to, andList(f.Ends), way)
}

// affect applies an effect to every link that the fault strikes, until undo.
func (f *link) affect(x *Injection, w Links, e Effect) (undo func(), err error) {
	var heal []func()
	for _, process := range x.Targets {
		for _, end := range f.Ends {
			h, err := w.Affect(x, process, end, f.Way, e)
			if err != nil {
				InOrder(heal)()
				return nil, err
			}
			heal = append(heal, h)
		}
	}
	return InOrder(heal), nil
}

// linkKeys returns the keys of a fault on links: process first, then ends, then the kind's own
// keys.
func linkKeys(process, about, ends string, own ...yamlfile.Key) []yamlfile.Key {
	keys := []yamlfile.Key{
		processKey(process, about),
		yamlfile.Required(ends, "the other ends", yamlfile.SomeSetOf(yamlfile.Enum(OtherEnds()))),
	}
	return append(append(keys, own...), forKey())
}

func directionKey(about string) yamlfile.Key {
	return yamlfile.Optional("direction", about, yamlfile.Enum(directions()))
}
