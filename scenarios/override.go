package scenarios

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"handoff/core/config"
)

// setting is one key of `config:`, read once and applied to the defaults of each profile.
type setting struct {
	path  string
	index []int
	value reflect.Value
	node  *yaml.Node
}

// leaf is one key of the configuration.
type leaf struct {
	path  string
	index []int
	kind  reflect.Type
}

// leaves lists the keys under a struct, in the order of its fields. What can be configured is what
// core/config says, found by reflection: a key added there can be overridden here at once.
func leaves(t reflect.Type, prefix string, index []int) []leaf {
	var list []leaf
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if name == "" || name == "-" || prefix == "" && name == "profile" {
			continue // the profile stands at the top of a scenario
		}
		path, at := name, append(slices.Clone(index), i)
		if prefix != "" {
			path = prefix + "." + name
		}
		if f.Type.Kind() == reflect.Struct {
			list = append(list, leaves(f.Type, path, at)...)
			continue
		}
		list = append(list, leaf{path, at, f.Type})
	}
	return list
}

func configLeaves() []leaf { return leaves(reflect.TypeFor[config.Config](), "", nil) }

// configSections lists the names one level below a path, sections and keys alike.
func configSections(all []leaf, prefix string) []string {
	var names []string
	for _, l := range all {
		rest, ok := strings.CutPrefix(l.path, prefix)
		if !ok {
			continue
		}
		name, _, _ := strings.Cut(rest, ".")
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// renamed tells readers of the source documents where a key of theirs has gone.
func renamed(path string) string {
	switch path[strings.LastIndex(path, ".")+1:] {
	case "heartbeat_max_age_secs":
		return "is refused, because freshness is the lease and nothing else: set worker.heartbeat_interval and worker.heartbeat_staleness_multiplier"
	case "worker_queue_ttl", "message_ttl":
		return "was renamed to message_queue.rabbitmq.worker_queue_ttl_ms, in milliseconds"
	case "rabbitmq":
		return "was renamed to message_queue.rabbitmq"
	case "profile":
		return "is refused here: the profile stands at the top of the scenario"
	}
	return ""
}

// settings reads `config:`.
func (r *reader) settings(n *yaml.Node) []setting {
	return r.section(n, "config", "", configLeaves())
}

func (r *reader) section(n *yaml.Node, where, prefix string, all []leaf) []setting {
	list, _, _ := r.entries(n, where)
	var out []setting
	for _, e := range list {
		path := prefix + e.name
		if at := slices.IndexFunc(all, func(l leaf) bool { return l.path == path }); at >= 0 {
			if v, ok := r.configValue(e.value, path, all[at].kind); ok {
				out = append(out, setting{path, all[at].index, v, e.value})
			}
			continue
		}
		if len(configSections(all, path+".")) > 0 {
			out = append(out, r.section(e.value, "config."+path, path+".", all)...)
			continue
		}
		r.unknownConfig(e, where, prefix, all)
	}
	return out
}

// unknownConfig says where a key belongs: under another name, in another section, or nowhere.
func (r *reader) unknownConfig(e entry, where, prefix string, all []leaf) {
	if why := renamed(e.name); why != "" {
		r.refuse(e.key, "key %q %s", e.name, why)
		return
	}
	p := Problem{
		Message: fmt.Sprintf("unknown key %q under %s", e.name, where),
		Allowed: configSections(all, prefix),
	}
	p.Nearest = nearest(e.name, p.Allowed)
	for _, l := range all {
		if strings.HasSuffix(l.path, "."+e.name) {
			p.Nearest = l.path
			break
		}
	}
	r.refuseAt(e.key.Line, e.key.Column, p)
}

// configValue reads a value of a key's type. Ranges are Validate's business.
func (r *reader) configValue(n *yaml.Node, path string, t reflect.Type) (reflect.Value, bool) {
	v := reflect.New(t).Elem()
	if t == reflect.TypeFor[time.Duration]() {
		d, ok := r.duration(n, path, 0)
		v.SetInt(int64(d))
		return v, ok
	}
	switch t.Kind() {
	case reflect.String:
		text, ok := r.text(n, path)
		v.SetString(text)
		return v, ok
	case reflect.Bool:
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
			r.refuse(n, "%s must be true or false, is %s", path, kindOf(n))
			return v, false
		}
		v.SetBool(strings.EqualFold(n.Value, "true"))
		return v, true
	case reflect.Int, reflect.Int64:
		number, ok := r.integer(n, path, 0, int64(maxDuration/time.Millisecond))
		v.SetInt(number)
		return v, ok
	case reflect.Float64:
		var number float64
		if n.Kind != yaml.ScalarNode || n.Decode(&number) != nil || number != number {
			r.refuse(n, "%s must be a number, is %s", path, kindOf(n))
			return v, false
		}
		v.SetFloat(number)
		return v, true
	}
	r.refuse(n, "%s can't be set in a scenario", path)
	return v, false
}

// effective is the configuration under each profile.
func effective(profiles []config.Profile, settings []setting) map[config.Profile]config.Config {
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

// validate reports settings that make no sense together, under each profile, at the key that is to
// blame or, where that one is a default, at `config:` itself.
func (r *reader) validate(n *yaml.Node, s *Scenario, settings []setting) {
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
		r.refuse(at, "%s %s (under profile %s)", problem.Key, problem.Why, strings.Join(said[problem], " and "))
	}
}
