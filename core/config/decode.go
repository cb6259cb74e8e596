package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"handoff/core/config/yamlfile"
)

// Setting is one key that was set, with its position.
type Setting struct {
	Leaf
	Value reflect.Value
	Node  *yaml.Node
}

// Decode reads a mapping whose keys are among all. It refuses unreadable values at their positions and
// returns their keys in unread. For a key with another name in the source documents, the refusal gives the
// current name. Messages name the mapping as where, which is empty for a whole file.
func Decode(r *yamlfile.Reader, n *yaml.Node, where string, all []Leaf) (settings []Setting, unread []string) {
	d := decoder{reader: r, top: where, all: all}
	if where == "" {
		where = "the top"
	}
	d.decodeSection(n, where, "")
	return d.settings, d.unread
}

type decoder struct {
	reader   *yamlfile.Reader
	top      string
	all      []Leaf
	settings []Setting
	unread   []string
}

func (d *decoder) decodeSection(n *yaml.Node, where, prefix string) {
	for _, e := range d.reader.Entries(n, where) {
		path := prefix + e.Name
		if at := slices.IndexFunc(d.all, func(l Leaf) bool { return l.Path == path }); at >= 0 {
			if v, ok := d.all[at].readNode(d.reader, e.Value); ok {
				d.settings = append(d.settings, Setting{d.all[at], v, e.Value})
			} else {
				d.unread = append(d.unread, path)
			}
			continue
		}
		if len(Sections(d.all, path+".")) > 0 {
			inside := path
			if d.top != "" {
				inside = d.top + "." + path
			}
			d.decodeSection(e.Value, inside, path+".")
			continue
		}
		d.refuseUnknown(e, where, prefix)
	}
}

// refuseUnknown refuses an unknown key and suggests the right name or section if there is one.
func (d *decoder) refuseUnknown(e yamlfile.Entry, where, prefix string) {
	if e.Name == "profile" {
		whose := "file"
		if d.top != "" {
			whose = "scenario"
		}
		d.reader.Refuse(e.Key, "key %q is refused here: the profile stands at the top of the %s", e.Name, whose)
		return
	}
	if why := oldKeyAdvice(prefix + e.Name); why != "" {
		d.reader.Refuse(e.Key, "key %q %s", e.Name, why)
		return
	}
	p := yamlfile.Problem{
		Message: fmt.Sprintf("unknown key %q under %s", e.Name, where),
		Allowed: Sections(d.all, prefix),
	}
	p.Nearest = nearestKey(e.Name, p.Allowed, d.all)
	d.reader.RefuseAt(e.Key.Line, e.Key.Column, p)
}

// nearestKey returns the key that was probably meant: the same name in another section, or a similar
// spelling.
func nearestKey(name string, allowed []string, all []Leaf) string {
	for _, l := range all {
		if strings.HasSuffix(l.Path, "."+name) {
			return l.Path
		}
	}
	return yamlfile.Nearest(name, allowed)
}

// oldKeyAdvice explains what replaced a key of the source documents; empty for other keys.
func oldKeyAdvice(path string) string {
	switch path[strings.LastIndex(path, ".")+1:] {
	case "heartbeat_max_age_secs":
		return "is refused, because freshness is the lease and nothing else: set worker.heartbeat_interval and worker.heartbeat_staleness_multiplier"
	case "worker_queue_ttl", "message_ttl", "default_message_ttl":
		return "was renamed to message_queue.rabbitmq.worker_queue_ttl_ms, in milliseconds"
	case "default_heartbeat_interval":
		return "was renamed to worker.heartbeat_interval"
	case "rabbitmq":
		return "was renamed to message_queue.rabbitmq"
	}
	return ""
}
