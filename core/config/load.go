package config

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"handoff/core/config/yamlfile"
)

// Input holds the sources of a daemon's configuration. Later sources win: the profile's defaults,
// the file, the environment, the flags.
type Input struct {
	// File is the name of the YAML file, empty for none. Data is its content.
	File string
	Data []byte
	// Environ is the environment as in os.Environ; only variables that begin with HANDOFF_ matter.
	Environ []string
	// Flags are the settings of the command line, in order.
	Flags []Flag
}

// Flag is a setting of the command line.
type Flag struct {
	// Name is the flag as typed. Path is the key that it sets.
	Name, Path string
	Value      string
}

// Effective is a configuration together with the origin of each value.
type Effective struct {
	Config     Config
	Deployment Deployment
	origins    map[string]origin
	// lines are the lines of the file.
	lines []string
}

// origin is the place where a value was set.
type origin struct {
	// name is the name of the file, environment variable or flag.
	name string
	// line and column are the position in a file, otherwise 0.
	line, column int
	// found reports whether the process determined the value itself; name is then the source.
	found bool
}

// Load merges the sources. It returns all problems, beginning with the file's. If there are any, the
// Effective has only the values that could be read, and must not be used to run.
func Load(in Input) (*Effective, yamlfile.Errors) {
	l := loader{all: daemonLeaves(), unread: map[string]bool{}}
	l.readFile(in)
	l.readEnvironment(in.Environ)
	l.readFlags(in.Flags)
	e := l.mergeAssignments()
	l.validateSettings(e, in)
	return e, l.problems
}

// LoadFile is Load, but reads the file from disk if one is named.
func LoadFile(in Input) (*Effective, yamlfile.Errors) {
	if in.File == "" {
		return Load(in)
	}
	data, err := os.ReadFile(in.File)
	in.Data = data
	if err == nil {
		return Load(in)
	}
	in.Data = nil
	e, problems := Load(in)
	return e, append(yamlfile.Errors{{Message: "the configuration can't be read: " + err.Error()}}, problems...)
}

type loader struct {
	all      []Leaf
	assigned []assignment
	problems yamlfile.Errors
	// unread are the keys whose value was refused. Problems with the defaults that replace these would be
	// misleading.
	unread map[string]bool
}

type assignment struct {
	Leaf
	value  reflect.Value
	origin origin
}

func (l *loader) readFile(in Input) {
	if in.File == "" {
		return
	}
	r := yamlfile.NewReader(in.File, "configuration", in.Data)
	if root := r.Root(in.Data); root != nil {
		settings, unread := Decode(r, root, "", l.all)
		for _, s := range settings {
			l.assigned = append(l.assigned, assignment{s.Leaf, s.Value, origin{name: in.File, line: s.Node.Line, column: s.Node.Column}})
		}
		for _, path := range unread {
			l.unread[path] = true
		}
	}
	for _, p := range r.Problems() {
		if mayHoldSecret(p.Source) {
			p.Source = ""
		}
		l.problems = append(l.problems, p)
	}
}

// secretLine matches lines that a message must not quote: a misspelt token is still a secret.
var secretLine = regexp.MustCompile(`(?i)tok|pass|secret|key|auth|cred|://[^/\s]*@`)

func mayHoldSecret(line string) bool { return secretLine.MatchString(line) }

const envPrefix = "HANDOFF_"

// EnvName returns the environment variable of a key: HANDOFF_EXECUTOR_DISPATCH_TIMEOUT for
// executor.dispatch_timeout.
func EnvName(path string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// foreignVariable matches variables with our prefix that set no key: the name of the file, variables of the
// harness and of actions, and those that Kubernetes sets for every service whose name begins with "handoff".
var foreignVariable = regexp.MustCompile(`^HANDOFF_(CONFIG|CHAOS_.*|CONFORMANCE_.*|WITHOUT|INSTALL|TESTS|PATIENCE|WITNESS|ACTIONS_DIR|EXECUTION_ID|EPOCH|PARAMETERS|(.*_)?SERVICE_(HOST|PORT(_.*)?)|(.*_)?PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

func (l *loader) readEnvironment(environ []string) {
	var names []string
	byName := map[string]Leaf{}
	for _, leaf := range l.all {
		name := EnvName(leaf.Path)
		names = append(names, name)
		byName[name] = leaf
	}
	environ = slices.Clone(environ)
	slices.Sort(environ)
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, envPrefix) {
			continue
		}
		leaf, ok := byName[name]
		switch {
		case ok && value == "" && !leaf.mayBeEmpty():
			// Compose files pass unset variables as empty strings.
		case ok:
			l.assignText(leaf, value, name)
		case !foreignVariable.MatchString(name):
			l.problems = append(l.problems, yamlfile.Problem{
				File: name, Message: "no key is set by this environment variable", Nearest: nearestVariable(name, names),
			})
		}
	}
}

// nearestVariable returns the variable that was probably meant: the same name in another section, or a
// similar spelling.
func nearestVariable(name string, names []string) string {
	for _, n := range names {
		if strings.HasSuffix(n, strings.TrimPrefix(name, "HANDOFF")) {
			return n
		}
	}
	return yamlfile.Nearest(name, names)
}

func (l *loader) readFlags(flags []Flag) {
	for _, f := range flags {
		at := slices.IndexFunc(l.all, func(leaf Leaf) bool { return leaf.Path == f.Path })
		l.assignText(l.all[at], f.Value, f.Name)
	}
}

func (l *loader) assignText(leaf Leaf, text, from string) {
	v, p, ok := leaf.parseText(text)
	if !ok {
		p.File = from
		l.problems = append(l.problems, p)
		l.unread[leaf.Path] = true
		return
	}
	l.assigned = append(l.assigned, assignment{leaf, v, origin{name: from}})
}

// mergeAssignments applies the assignments to the defaults of the profile, which the last assignment to it
// determines.
func (l *loader) mergeAssignments() *Effective {
	profile := Hardened
	for _, a := range l.assigned {
		if a.Path == "profile" {
			profile = Profile(a.value.String())
		}
	}
	e := &Effective{Config: Default(profile), Deployment: DefaultDeployment(), origins: map[string]origin{}}
	for _, a := range l.assigned {
		e.fieldValue(a.Leaf).Set(a.value)
		e.origins[a.Path] = a.origin
	}
	return e
}

func (e *Effective) fieldValue(l Leaf) reflect.Value {
	root := reflect.ValueOf(&e.Config).Elem()
	if l.deployment {
		root = reflect.ValueOf(&e.Deployment).Elem()
	}
	return root.FieldByIndex(l.Index)
}

// validateSettings reports invalid and contradictory settings. Each problem points at the place where its key
// was set.
func (l *loader) validateSettings(e *Effective, in Input) {
	e.lines = strings.Split(string(in.Data), "\n")
	for _, p := range append(e.Config.Validate(), e.Deployment.Validate()...) {
		if !l.isMisleading(p) {
			l.problems = append(l.problems, e.Locate(p))
		}
	}
	// Problems of the file are sorted by position; the others follow in the order in which they
	// were found.
	slices.SortStableFunc(l.problems, func(a, b yamlfile.Problem) int {
		switch {
		case a.Line > 0 && b.Line > 0 && a.Line != b.Line:
			return a.Line - b.Line
		case a.Line > 0 && b.Line > 0:
			return a.Column - b.Column
		case a.Line > 0:
			return -1
		case b.Line > 0:
			return 1
		}
		return 0
	})
}

// Locate adds the place where the key of a problem was set.
func (e *Effective) Locate(p Problem) yamlfile.Problem {
	out := yamlfile.Problem{File: e.Origin(p.Key), Message: p.Error()}
	if o := e.origins[p.Key]; o.line > 0 {
		out.File, out.Line, out.Column = o.name, o.line, o.column
		if source := e.lines[o.line-1]; !mayHoldSecret(source) {
			out.Source = source
		}
	}
	return out
}

// Found replaces an empty value with one that the process has determined itself. where becomes its origin.
func (e *Effective) Found(path string, value any, where string) {
	all := daemonLeaves()
	field := e.fieldValue(all[slices.IndexFunc(all, func(l Leaf) bool { return l.Path == path })])
	if !field.IsZero() {
		return
	}
	field.Set(reflect.ValueOf(value))
	e.origins[path] = origin{name: where, found: true}
}

// isMisleading reports whether a problem is about the default of a key whose own value was refused.
func (l *loader) isMisleading(p Problem) bool {
	for path := range l.unread {
		name := path[strings.LastIndex(path, ".")+1:]
		if p.Key == path || strings.Contains(p.Why, name) ||
			strings.HasPrefix(path, "worker.heartbeat_") && strings.Contains(p.Why, "lease") {
			return true
		}
	}
	return false
}

// Origin describes what set a key: "handoff.yaml:3:5", an environment variable, a flag, or a default.
func (e *Effective) Origin(path string) string {
	o, set := e.origins[path]
	switch {
	case !set && slices.ContainsFunc(Leaves(), func(l Leaf) bool { return l.Path == path && path != "profile" }):
		return fmt.Sprintf("default of profile %s", e.Config.Profile)
	case !set:
		return "default"
	case o.found:
		return o.name
	case o.line > 0:
		return fmt.Sprintf("%s:%d:%d", o.name, o.line, o.column)
	case strings.HasPrefix(o.name, "-"):
		return "flag " + o.name
	}
	return "environment variable " + o.name
}
