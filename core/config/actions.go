package config

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"handoff/core/config/yamlfile"
	"handoff/core/execution"
)

// Bounds on an action.
const (
	maxActionRef  = 200
	maxEntrypoint = 4096
)

// MaxActionRetries and MaxActionConcurrency bound an action's settings. Every unit of concurrency is a
// database row.
const (
	MaxActionRetries     = 100
	MaxActionConcurrency = 10_000
)

// ActionKeys returns the keys of an action in a file. The API has the same keys, except that `name` is `ref`
// there, as in the source documents.
func ActionKeys() []string {
	return []string{"name", "runtime", "entrypoint", "timeout_seconds", "dispatch_timeout_seconds", "max_retries", "retried_exit_codes", "concurrency"}
}

var actionRef = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

// ValidateAction returns the problems of an action under a configuration; the Key of a problem is
// one of ActionKeys.
func (c Config) ValidateAction(a execution.Action) []Problem {
	v := validation{}
	switch {
	case a.Ref == "":
		v.addProblem("name", "is missing; it should look like core.echo")
	case len(a.Ref) > maxActionRef || !actionRef.MatchString(a.Ref):
		v.addProblem("name", "%q must be letters, digits, - and _ with dots between them, such as core.echo, at most %d characters", yamlfile.Cut(a.Ref), maxActionRef)
	}
	switch {
	case a.Runtime == "":
		v.addProblem("runtime", "is missing; allowed: %s", strings.Join(Runtimes(), ", "))
	case !slices.Contains(Runtimes(), a.Runtime):
		near := ""
		if n := yamlfile.Nearest(a.Runtime, Runtimes()); n != "" {
			near = fmt.Sprintf("; did you mean %q?", n)
		}
		v.addProblem("runtime", "%q is not a runtime; allowed: %s%s", yamlfile.Cut(a.Runtime), strings.Join(Runtimes(), ", "), near)
	case a.Entrypoint == "" && a.Runtime != RuntimeNoop:
		v.addProblem("entrypoint", "is missing; name what the runtime %s is to run", a.Runtime)
	}
	if len(a.Entrypoint) > maxEntrypoint || strings.ContainsFunc(a.Entrypoint, func(r rune) bool { return r < ' ' && r != '\t' && r != '\n' }) {
		v.addProblem("entrypoint", "must be at most %d characters without control characters", maxEntrypoint)
	}
	v.checkLimits(c, a.Timeout, a.DispatchTimeout, a.MaxRetries)
	if a.Concurrency < 0 || a.Concurrency > MaxActionConcurrency {
		v.addProblem("concurrency", "is %d, must be from 1 to %d; leave it out for no limit", a.Concurrency, MaxActionConcurrency)
	}
	return v.problems
}

// ValidateLimits returns the problems of the limits that a request sets for its execution; the Key
// of a problem is the name of the limit.
//
// The limits have the same bounds as those of an action. They may exceed the limits of the execution's own
// action: a client that may submit may also replace the action, so a tighter bound would protect nothing.
func (c Config) ValidateLimits(l execution.Limits) []Problem {
	v := validation{}
	v.checkLimits(c, l.Timeout, l.DispatchTimeout, l.MaxRetries)
	return v.problems
}

// checkLimits checks the settings that both actions and requests have; a timeout of 0 means the default.
func (v *validation) checkLimits(c Config, timeout, dispatchTimeout time.Duration, retries int) {
	seconds := func(key string, d time.Duration) {
		if d < 0 || d > yamlfile.MaxDuration {
			v.addProblem(key, "is %d, must be from 1 to %d; leave it out for the default", d/time.Second, yamlfile.MaxDuration/time.Second)
		}
	}
	seconds(execution.LimitTimeout, timeout)
	seconds(execution.LimitDispatchTimeout, dispatchTimeout)
	if q := c.MessageQueue.RabbitMQ; q.DeadLetter.Enabled && dispatchTimeout > q.WorkerQueueTTL() {
		v.addProblem(execution.LimitDispatchTimeout, "is %d, must not be longer than message_queue.rabbitmq.worker_queue_ttl_ms (%s): the message would die while it can still be claimed",
			dispatchTimeout/time.Second, yamlfile.Short(q.WorkerQueueTTL()))
	}
	if retries < 0 || retries > MaxActionRetries {
		v.addProblem(execution.LimitRetries, "is %d, must be from 0 to %d", retries, MaxActionRetries)
	}
}

// LoadActions reads every .yaml and .yml file of a directory. A file holds one action, or a list of
// them. It reports all mistakes of all files at once.
func LoadActions(dir string, c Config) ([]execution.Action, yamlfile.Errors) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, yamlfile.Errors{{Message: "the actions can't be read: " + err.Error()}}
	}
	l := actionLoader{config: c, first: map[string]string{}}
	for _, n := range names {
		ext := filepath.Ext(n.Name())
		if n.IsDir() || ext != ".yaml" && ext != ".yml" || strings.HasPrefix(n.Name(), ".") {
			continue
		}
		path := filepath.Join(dir, n.Name())
		data, err := os.ReadFile(path)
		if err != nil {
			l.problems = append(l.problems, yamlfile.Problem{Message: "an action can't be read: " + err.Error()})
			continue
		}
		l.parseFile(path, data)
	}
	return l.actions, l.problems
}

// ParseActions reads the content of one action file. Messages name it as file.
func ParseActions(file string, data []byte, c Config) ([]execution.Action, yamlfile.Errors) {
	l := actionLoader{config: c, first: map[string]string{}}
	l.parseFile(file, data)
	return l.actions, l.problems
}

type actionLoader struct {
	config   Config
	actions  []execution.Action
	problems yamlfile.Errors
	// first has the position at which each action's name first appeared.
	first map[string]string
}

func (al *actionLoader) parseFile(path string, data []byte) {
	r := yamlfile.NewReader(path, "list of actions", data)
	root := r.Root(data)
	switch {
	case root == nil && len(r.Problems()) == 0:
		r.RefuseAt(1, 1, yamlfile.Problem{Message: "the file is empty; an action has name, runtime and entrypoint"})
	case root == nil:
	case root.Kind == yaml.SequenceNode:
		for _, item := range root.Content {
			al.parseAction(r, path, item)
		}
	default:
		al.parseAction(r, path, root)
	}
	al.problems = append(al.problems, r.Problems()...)
}

func (al *actionLoader) parseAction(r *yamlfile.Reader, path string, n *yaml.Node) {
	var a execution.Action
	at := map[string]*yaml.Node{}
	unread := n.Kind != yaml.MappingNode
	for _, e := range r.Entries(n, "the action") {
		at[e.Name] = e.Value
		var ok bool
		var number int64
		switch e.Name {
		case "name":
			a.Ref, ok = r.Text(e.Value, e.Name)
		case "runtime":
			a.Runtime, ok = r.Text(e.Value, e.Name)
		case "entrypoint":
			a.Entrypoint, ok = r.Text(e.Value, e.Name)
		case "timeout_seconds":
			number, ok = al.readSeconds(r, e)
			a.Timeout = time.Duration(number) * time.Second
		case "dispatch_timeout_seconds":
			number, ok = al.readSeconds(r, e)
			a.DispatchTimeout = time.Duration(number) * time.Second
		case "max_retries":
			number, ok = r.Integer(e.Value, e.Name, 0, MaxActionRetries)
			a.MaxRetries = int(number)
		case "retried_exit_codes":
			a.RetriedExitCodes, ok = readExitCodes(r, e)
		case "concurrency":
			if ok = yamlfile.IsNull(e.Value); !ok {
				number, ok = r.Integer(e.Value, e.Name, 1, MaxActionConcurrency)
			}
			a.Concurrency = int(number)
		case "ref", "action_ref":
			r.Refuse(e.Key, "key %q was renamed to name", e.Name)
		default:
			r.Unknown(e.Key, fmt.Sprintf("unknown key %q under the action", e.Name), e.Name, ActionKeys())
		}
		unread = unread || !ok
	}
	if unread {
		return // a key that seems to be missing may have an unreadable value
	}
	problems := al.config.ValidateAction(a)
	for _, p := range problems {
		node := at[p.Key]
		if node == nil {
			node = n
		}
		r.Refuse(node, "%s %s", p.Key, p.Why)
	}
	if len(problems) > 0 {
		return
	}
	if first, seen := al.first[a.Ref]; seen {
		r.Refuse(at["name"], "duplicate action %s; the first is at %s", a.Ref, first)
		return
	}
	al.first[a.Ref] = fmt.Sprintf("%s:%d", path, at["name"].Line)
	al.actions = append(al.actions, a)
}

// readExitCodes reads a list of exit codes; null means none, as in the API.
func readExitCodes(r *yamlfile.Reader, e yamlfile.Entry) (codes execution.ExitCodes, ok bool) {
	if yamlfile.IsNull(e.Value) {
		return codes, true
	}
	items, ok := r.Items(e.Value, e.Name)
	list := make([]int, 0, len(items))
	for _, item := range items {
		code, good := r.Integer(item, "an exit code under "+e.Name, 1, execution.MaxExitCode)
		list, ok = append(list, int(code)), ok && good
	}
	return execution.NewExitCodes(list...), ok
}

// readSeconds reads a number of seconds; null means the default, as in the API.
func (al *actionLoader) readSeconds(r *yamlfile.Reader, e yamlfile.Entry) (int64, bool) {
	if yamlfile.IsNull(e.Value) {
		return 0, true
	}
	return r.Integer(e.Value, e.Name, 1, int64(yamlfile.MaxDuration/time.Second))
}
