package scenario

import (
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"handoff/core/config"
)

// setting is one key of a scenario's `config:`, read once and applied to the defaults of each profile.
type setting struct {
	path  string
	index []int
	value reflect.Value
	node  *yaml.Node
}

// leaf is one key of the configuration, with its path and type.
type leaf struct {
	path  string
	index []int
	kind  reflect.Type
}

// ruleLeaves lists the keys that a scenario can set: all keys of core/config except the profile, which is at
// the top level of a scenario. New keys of core/config are included automatically.
func ruleLeaves() []config.Leaf {
	return slices.DeleteFunc(config.Leaves(), func(l config.Leaf) bool { return l.Path == "profile" })
}

func configLeaves() []leaf {
	var list []leaf
	for _, l := range ruleLeaves() {
		list = append(list, leaf{l.Path, l.Index, l.Type})
	}
	return list
}

// readSettings reads `config:` as a daemon reads its file.
func (l *loader) readSettings(n *yaml.Node) []setting {
	read, _ := config.Decode(l.Reader, n, "config", ruleLeaves())
	var out []setting
	for _, s := range read {
		out = append(out, setting{s.Path, s.Index, s.Value, s.Node})
	}
	return out
}

// effectiveConfigs returns the configuration under each profile.
func effectiveConfigs(profiles []config.Profile, settings []setting) map[config.Profile]config.Config {
	out := map[config.Profile]config.Config{}
	for _, p := range profiles {
		c := config.Default(p)
		into := reflect.ValueOf(&c).Elem()
		for _, s := range settings {
			into.FieldByIndex(s.index).Set(s.value)
		}
		out[p] = c
	}
	return out
}

// validateConfigs reports settings that contradict each other under a profile. The error is at the
// responsible key or, if that key has its default, at `config:` itself.
func (l *loader) validateConfigs(n *yaml.Node, s *Scenario, settings []setting) {
	said := map[config.Problem][]string{}
	var order []config.Problem
	for _, p := range s.Profiles {
		for _, problem := range s.configs[p].Validate() {
			if said[problem] == nil {
				order = append(order, problem)
			}
			said[problem] = append(said[problem], string(p))
		}
	}
	for _, problem := range order {
		at := n
		for _, set := range settings {
			if set.path == problem.Key {
				at = set.node
			}
		}
		l.Refuse(at, "%s %s (under profile %s)", problem.Key, problem.Why, strings.Join(said[problem], " and "))
	}
}
