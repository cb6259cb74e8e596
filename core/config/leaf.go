package config

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"handoff/core/config/yamlfile"
)

// Leaf is one key of the configuration. Reflection finds it: a key is declared once, as a field, and can then
// be set in a file, by the environment and in a scenario.
type Leaf struct {
	// Path is the key's name with its sections, separated by dots.
	Path string
	// Index leads to the field from its root, as in reflect.Value.FieldByIndex.
	Index []int
	// Type is the type of the field.
	Type reflect.Type

	deployment bool
	// secret is "" for no secret, "url" for a URL that may contain a password, "all" if the whole value is
	// secret.
	secret string
}

// Leaves lists the keys of Config in the order of its fields, `profile` included.
func Leaves() []Leaf { return structLeaves(reflect.TypeFor[Config](), "", nil) }

// daemonLeaves lists the keys of a daemon's file: the keys of Config and Deployment, section by section.
func daemonLeaves() []Leaf {
	all := Leaves()
	for _, l := range structLeaves(reflect.TypeFor[Deployment](), "", nil) {
		l.deployment = true
		all = append(all, l)
	}
	// Lists and printed output keep the keys of a section together. Sections have the order in which they
	// first appear.
	var order []string
	section := func(path string) string { return path[:strings.LastIndex(path, ".")+1] }
	for _, l := range all {
		if s := section(l.Path); !slices.Contains(order, s) {
			order = append(order, s)
		}
	}
	rank := func(l Leaf) int {
		top, _, _ := strings.Cut(l.Path, ".")
		return 100*slices.IndexFunc(order, func(s string) bool { return strings.HasPrefix(s, top+".") || s == "" && !strings.Contains(l.Path, ".") }) +
			slices.Index(order, section(l.Path))
	}
	slices.SortStableFunc(all, func(a, b Leaf) int { return rank(a) - rank(b) })
	return all
}

func structLeaves(t reflect.Type, prefix string, index []int) []Leaf {
	var list []Leaf
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if name == "" || name == "-" {
			continue
		}
		path, at := prefix+name, append(slices.Clone(index), i)
		if f.Type.Kind() == reflect.Struct {
			list = append(list, structLeaves(f.Type, path+".", at)...)
			continue
		}
		list = append(list, Leaf{Path: path, Index: at, Type: f.Type, secret: f.Tag.Get("secret")})
	}
	return list
}

// Sections lists the names one level below a prefix, sections and keys alike.
func Sections(all []Leaf, prefix string) []string {
	var names []string
	for _, l := range all {
		rest, ok := strings.CutPrefix(l.Path, prefix)
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

// mayBeEmpty reports whether an empty string is a valid value, which turns off a default.
func (l Leaf) mayBeEmpty() bool {
	return l.deployment && l.Type.Kind() == reflect.String && l.allowedNames() == nil
}

// checksChoices reports whether readNode refuses a text that is not one of the choices. Validate does this
// for the keys of Config, except for the profile, which determines all defaults.
func (l Leaf) checksChoices() bool {
	return l.allowedNames() != nil && (l.deployment || l.Path == "profile")
}

// allowedNames lists the allowed values of a key; nil if any text is allowed.
func (l Leaf) allowedNames() []string {
	return map[string][]string{
		"profile":                           {string(Hardened), string(Documented)},
		"executor.unclaimed":                {string(Fail), string(Reschedule)},
		"executor.timeout_monitor":          {string(Act), string(Observe)},
		"executor.health_probes":            {string(Act), string(Observe), string(Off)},
		"message_queue.rabbitmq.queue_type": {"quorum", "classic"},
		"worker.runtimes":                   Runtimes(),
		"worker.isolation.privileges":       {DropPrivileges, KeepPrivileges},
		"worker.isolation.private_tmp":      {PrivateTmpAuto, PrivateTmpOff},
		"worker.isolation.cgroup":           {CgroupAuto, CgroupRequire, CgroupOff},
		"log.level":                         {"debug", "info", "warn", "error"},
		"log.format":                        {LogAuto, LogText, LogJSON},
	}[l.Path]
}

// largest bounds integers, so that a sum of a few in milliseconds can't overflow.
const largest = int64(yamlfile.MaxDuration / time.Millisecond)

// maxDuration bounds a duration. Retention may last for years.
func (l Leaf) maxDuration() time.Duration {
	if strings.HasPrefix(l.Path, "retention.") && l.Path != "retention.interval" {
		return longestKept
	}
	return yamlfile.MaxDuration
}

// readNode reads a value of the key's type from a file. Validate checks the ranges.
func (l Leaf) readNode(r *yamlfile.Reader, n *yaml.Node) (reflect.Value, bool) {
	v := reflect.New(l.Type).Elem()
	if l.Type == tokensType {
		list, ok := l.readTokens(r, n)
		v.Set(reflect.ValueOf(list))
		return v, ok
	}
	if l.secret != "" && (n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str") {
		// The message of Text would reveal the secret.
		r.Refuse(n, "%s must be a string; put it in quotes", l.Path)
		return v, false
	}
	if l.Type == reflect.TypeFor[time.Duration]() {
		d, ok := r.DurationWithin(n, l.Path, 0, l.maxDuration())
		v.SetInt(int64(d))
		return v, ok
	}
	switch l.Type.Kind() {
	case reflect.String:
		if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" && n.Value == "" && l.mayBeEmpty() {
			return v, true
		}
		text, ok := r.Text(n, l.Path)
		if ok && l.checksChoices() && !slices.Contains(l.allowedNames(), text) {
			r.Unknown(n, "unknown "+l.Path+" "+strconv.Quote(yamlfile.Cut(text)), text, l.allowedNames())
			return v, false
		}
		v.SetString(text)
		return v, ok
	case reflect.Slice:
		list, ok := l.readList(r, n)
		v.Set(reflect.ValueOf(list))
		return v, ok
	case reflect.Bool:
		b, ok := r.Bool(n, l.Path)
		v.SetBool(b)
		return v, ok
	case reflect.Int, reflect.Int64:
		number, ok := r.Integer(n, l.Path, 0, l.maxInteger())
		v.SetInt(number)
		return v, ok
	case reflect.Float64:
		number, ok := r.Float(n, l.Path)
		v.SetFloat(number)
		return v, ok
	}
	r.Refuse(n, "%s can't be set", l.Path)
	return v, false
}

func (l Leaf) readList(r *yamlfile.Reader, n *yaml.Node) ([]string, bool) {
	items, ok := r.Items(n, l.Path)
	var list []string
	for _, item := range items {
		name, good := r.Text(item, l.Path)
		switch {
		case !good:
		case l.allowedNames() != nil && !slices.Contains(l.allowedNames(), name):
			r.Unknown(item, "unknown name "+strconv.Quote(name)+" in "+l.Path, name, l.allowedNames())
			good = false
		case slices.Contains(list, name):
			r.Refuse(item, "duplicate value %s under %s", name, l.Path)
			good = false
		}
		if good {
			list = append(list, name)
		}
		ok = ok && good
	}
	return list, ok
}

// parseText parses a value of the key's type from an environment variable or a flag, which are not YAML. If
// it fails, p is the reason, without a position.
func (l Leaf) parseText(text string) (v reflect.Value, p yamlfile.Problem, ok bool) {
	if l.Type == tokensType {
		return l.parseTokens(text)
	}
	v = reflect.New(l.Type).Elem()
	refuse := func(what string) (reflect.Value, yamlfile.Problem, bool) {
		return v, yamlfile.Problem{Message: l.Path + " must be " + what + ", is " + strconv.Quote(text)}, false
	}
	if l.Type == reflect.TypeFor[time.Duration]() {
		d, p, ok := yamlfile.ParseDuration(text, l.Path, strconv.Quote(text), 0, l.maxDuration())
		v.SetInt(int64(d))
		return v, p, ok
	}
	switch l.Type.Kind() {
	case reflect.String:
		if l.checksChoices() && !slices.Contains(l.allowedNames(), text) {
			return v, yamlfile.Problem{
				Message: "unknown " + l.Path + " " + strconv.Quote(yamlfile.Cut(text)), Allowed: l.allowedNames(), Nearest: yamlfile.Nearest(text, l.allowedNames()),
			}, false
		}
		v.SetString(text)
	case reflect.Slice:
		var list []string
		for name := range strings.SplitSeq(text, ",") {
			name = strings.TrimSpace(name)
			if l.allowedNames() != nil && !slices.Contains(l.allowedNames(), name) {
				return v, yamlfile.Problem{
					Message: "unknown name " + strconv.Quote(name) + " in " + l.Path + ", a list with commas",
					Allowed: l.allowedNames(), Nearest: yamlfile.Nearest(name, l.allowedNames()),
				}, false
			}
			if !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
		v.Set(reflect.ValueOf(list))
	case reflect.Bool:
		if text != "true" && text != "false" {
			return refuse("true or false")
		}
		v.SetBool(text == "true")
	case reflect.Int, reflect.Int64:
		number, err := strconv.ParseInt(text, 10, 64)
		if err != nil || number < 0 || number > l.maxInteger() {
			return refuse("a whole number from 0 to " + strconv.FormatInt(l.maxInteger(), 10))
		}
		v.SetInt(number)
	case reflect.Float64:
		number, err := strconv.ParseFloat(text, 64)
		if err != nil || number != number {
			return refuse("a number")
		}
		v.SetFloat(number)
	}
	return v, yamlfile.Problem{}, true
}

// maskedYAML formats a value as YAML, with secrets masked.
func (l Leaf) maskedYAML(v reflect.Value) string {
	if l.Type == reflect.TypeFor[time.Duration]() {
		return yamlfile.Short(time.Duration(v.Int()))
	}
	switch l.Type.Kind() {
	case reflect.Slice:
		if l.Type == tokensType {
			return showTokens(v.Interface().([]Token))
		}
		return showNames(v.Interface().([]string), l.allowedNames() == nil)
	case reflect.String:
		text := v.String()
		switch {
		case text == "":
			return `""`
		case l.secret == "all":
			text = masked
		case l.secret == "url":
			text = MaskURL(text)
		}
		if l.allowedNames() != nil {
			return text
		}
		return strconv.Quote(text)
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	}
	return strconv.FormatInt(v.Int(), 10)
}
