package scenario

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v4"

	"handoff/chaos/fault"
	"handoff/core/config"
	"handoff/core/config/yamlfile"
	"handoff/core/execution"
)

// LoadFile reads a scenario from a file. For a readable file with mistakes, it returns yamlfile.Errors with
// every mistake.
func LoadFile(path string) (*Scenario, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading a scenario: %w", err)
	}
	defer func() { _ = file.Close() }()
	// Read one byte more than allowed, so that Parse refuses longer files and endless devices.
	data, err := io.ReadAll(io.LimitReader(file, yamlfile.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading a scenario: %w", err)
	}
	return Parse(path, data)
}

// Parse reads a scenario from the bytes of a file. Error messages use file as its name.
func Parse(file string, data []byte) (*Scenario, error) {
	l := &loader{Reader: yamlfile.NewReader(file, "scenario", data)}
	sum := sha256.Sum256(data)
	l.s.File, l.s.Digest, l.s.source = file, hex.EncodeToString(sum[:]), data
	return l.readDocument(l.Root(data))
}

// readDocument reads the root of the document. root is nil for an unreadable or empty file.
func (l *loader) readDocument(root *yaml.Node) (*Scenario, error) {
	switch {
	case root != nil:
		l.readScenario(root)
	case l.Count() == 0:
		l.RefuseAt(1, 1, yamlfile.Problem{Message: "the file is empty; `chaos new` writes a scenario to start from"})
	}
	if problems := l.Problems(); len(problems) > 0 {
		return nil, problems
	}
	l.s.Warnings = l.Warnings()
	return &l.s, nil
}

// knownTop and knownFault cache topShape and faultShape: their schemas are long, and a sweep loads a varied
// scenario for every run.
var (
	knownTop   = sync.OnceValue(topShape)   //nolint:gochecknoglobals // a constant
	knownFault = sync.OnceValue(faultShape) //nolint:gochecknoglobals // a constant
)

// readScenario reads the parts in the order of their dependencies, whatever their order in the file:
// profiles, their configuration, then the parts that are checked against it.
func (l *loader) readScenario(root *yaml.Node) {
	m, ok := l.Mapping(root, knownTop())
	if !ok {
		return
	}
	read := func(key string, part func(*yaml.Node)) {
		if n := m.At(key); n != nil {
			part(n)
		}
	}
	l.s.Worlds = []World{Sim, Live}
	l.s.Profiles = config.Profiles()
	read("name", l.readName)
	read("about", func(n *yaml.Node) { l.s.About, _ = l.Printable(n, "about") })
	read("worlds", l.readWorlds)
	read("profile", l.readProfiles)
	read("cluster", l.readCluster)
	configOK := true
	l.s.configs = effectiveConfigs(l.s.Profiles, nil)
	read("config", func(n *yaml.Node) { configOK = l.readConfig(n) })
	actions := m.At("actions")
	if actions != nil {
		l.readActions(actions, configOK)
	}
	read("workload", func(n *yaml.Node) { l.readWorkload(n, configOK) })
	l.s.expects = map[config.Profile]Expect{}
	read("expect", l.readExpect)
	read("faults", l.readFaults)
	read("settle", func(n *yaml.Node) { l.readSettle(n, m.At("faults") != nil) })
	if actions != nil {
		l.refuseUnrunnableActions(actions)
	}
	read("regression", l.readRegression)
}

// readRegression reads the seed, mutant and invariant of a shrunk failure.
func (l *loader) readRegression(n *yaml.Node) {
	m, ok := l.Mapping(n, regressionShape())
	if !ok || !m.Has("seed") {
		return
	}
	r := &Regression{}
	seed, _ := l.Integer(m.At("seed"), "seed", 0, math.MaxInt64)
	r.Seed = uint64(seed)
	if m.Has("mutant") {
		r.Mutant, _ = l.Printable(m.At("mutant"), "mutant")
	}
	if m.Has("invariant") {
		v, _ := l.readInvariant(m.At("invariant"), "invariant")
		r.Invariant = int(v)
	}
	l.s.Regression = r
}

func (l *loader) readName(n *yaml.Node) {
	name, ok := l.Printable(n, "name")
	if ok && !nameForm.MatchString(name) {
		l.Refuse(n, "name %q must be small letters and digits, with hyphens between them", name)
	}
	l.s.Name = name
}

func (l *loader) readWorlds(n *yaml.Node) {
	names, ok := l.Choices(n, "world", "worlds", worldNames())
	if ok && len(names) == 0 {
		l.Unknown(n, "worlds is empty", "", worldNames())
	}
	l.s.Worlds = nil
	for _, w := range names {
		l.s.Worlds = append(l.s.Worlds, World(w))
	}
}

func (l *loader) readProfiles(n *yaml.Node) {
	var names []string
	ok := true
	if n.Kind == yaml.SequenceNode {
		names, ok = l.Choices(n, "profile", "profile", profileNames())
		if ok && len(names) == 0 {
			l.Unknown(n, "profile is empty", "", profileNames())
		}
	} else if name, good := l.Choice(n, "profile", profileNames()); good {
		names = []string{name}
	}
	if len(names) == 0 || !ok {
		return // refused above; the other parts are checked under every profile
	}
	l.s.Profiles = nil
	for _, p := range names {
		l.s.Profiles = append(l.s.Profiles, config.Profile(p))
	}
}

func (l *loader) readCluster(n *yaml.Node) {
	before := l.Count()
	m, ok := l.Mapping(n, clusterShape())
	if !ok {
		return
	}
	l.s.Cluster.Executors = 1
	if m.Has("executors") {
		v, _ := l.Integer(m.At("executors"), "executors", 1, maxExecutors)
		l.s.Cluster.Executors = int(v)
	}
	if n := m.At("rabbitmq"); n != nil {
		l.s.Cluster.RabbitMQ, _ = l.Choice(n, "release of RabbitMQ", BrokerVersions())
		if slices.Contains(l.s.Worlds, Live) {
			l.Refuse(n, "only the simulated broker behaves like the release that a scenario names; a live run has the broker of its machine. Add worlds: [sim]")
		}
	}
	if m.Has("workers") {
		list := l.Entries(m.At("workers"), "workers")
		if len(list) > maxWorkers {
			l.Refuse(m.At("workers"), "%d workers; a scenario has at most %d", len(list), maxWorkers)
			list = nil
		}
		for _, e := range list {
			l.readWorker(e)
		}
	}
	l.clusterOK = l.Count() == before
}

func (l *loader) readWorker(e yamlfile.Entry) {
	w := Worker{Name: e.Name}
	if !nameForm.MatchString(e.Name) {
		l.Refuse(e.Key, "worker name %q must be small letters and digits, with hyphens between them", e.Name)
	}
	if e.Name == fault.Broker || e.Name == fault.Database || strings.HasPrefix(e.Name, "executor-") {
		l.Refuse(e.Key, "a worker can't be called %s: that is another part of the cluster", e.Name)
	}
	m, ok := l.Mapping(e.Value, workerShape(e.Name))
	if !ok {
		return
	}
	if n := m.At("runtimes"); n != nil {
		items, _ := l.Items(n, "runtimes")
		for _, item := range items {
			if runtime, ok := l.Printable(item, "a runtime"); ok {
				w.Runtimes = append(w.Runtimes, runtime)
			}
		}
		if n.Kind == yaml.SequenceNode && len(items) == 0 {
			l.Refuse(n, "worker %s has no runtime: it could run nothing", e.Name)
		}
	}
	if n := m.At("concurrency"); n != nil {
		v, _ := l.Integer(n, "concurrency", 1, maxConcurrency)
		w.Concurrency = int(v)
	}
	if n := m.At("starts"); n != nil {
		w.Starts, _ = l.Duration(n, "starts", 0)
	}
	l.s.Cluster.Workers = append(l.s.Cluster.Workers, w)
}

func (l *loader) readConfig(n *yaml.Node) bool {
	before := l.Count()
	settings := l.readSettings(n)
	l.s.configs = effectiveConfigs(l.s.Profiles, settings)
	if l.Count() == before {
		l.validateConfigs(n, &l.s, settings)
	}
	return l.Count() == before
}

// readActions reads the list of actions. An action with mistakes still gets its name, so that a misspelt key
// does not cause errors about an unknown action.
func (l *loader) readActions(n *yaml.Node, configOK bool) {
	before := l.Count()
	list := l.Entries(n, "actions")
	if n.Kind == yaml.MappingNode && len(n.Content) == 0 {
		l.Refuse(n, "actions is empty: there would be nothing to run")
	}
	l.actionsOK = l.Count() == before
	for _, e := range list {
		m, _ := l.Mapping(e.Value, actionShape(e.Name))
		l.s.Actions = append(l.s.Actions, l.readAction(e.Name, m, configOK))
	}
}

func (l *loader) readAction(ref string, m yamlfile.Mapping, configOK bool) Action {
	a := Action{Action: execution.Action{Ref: ref}}
	if n := m.At("runtime"); n != nil {
		a.Runtime, _ = l.Printable(n, "runtime")
	}
	if n := m.At("takes"); n != nil {
		d := fault.ReadDrawn(l.Reader, n, "takes", 0)
		a.TakesMin, a.TakesMax, a.TakesLog = d.Least, d.Most, d.Log
	}
	if n := m.At("fails"); n != nil {
		l.readFails(n, &a)
	}
	if n := m.At("concurrency"); n != nil {
		v, _ := l.Integer(n, "concurrency", 1, maxConcurrency)
		a.Concurrency = int(v)
	}
	if n := m.At("retried_exit_codes"); n != nil {
		a.Retried = l.readExitCodes(n, "retried_exit_codes")
		a.RetriedExitCodes = execution.NewExitCodes(a.Retried...)
	}
	a.Action = l.readLimits(m, configOK).On(a.Action)
	return a
}

// readLimits reads the limits that both actions and workload steps can set.
func (l *loader) readLimits(m yamlfile.Mapping, configOK bool) (limits execution.Limits) {
	if n := m.At("timeout"); n != nil {
		limits.Timeout, _ = l.Duration(n, "timeout", time.Millisecond)
	}
	if n := m.At("max_retries"); n != nil {
		v, _ := l.Integer(n, "max_retries", 0, maxRetries)
		limits.MaxRetries, limits.OwnRetries = int(v), true
	}
	n := m.At("dispatch_timeout")
	if n == nil {
		return limits
	}
	d, ok := l.Duration(n, "dispatch_timeout", time.Millisecond)
	limits.DispatchTimeout = d
	for _, p := range l.s.Profiles {
		q := l.s.configs[p].MessageQueue.RabbitMQ
		if ok && configOK && q.DeadLetter.Enabled && d > q.WorkerQueueTTL() {
			l.Refuse(n, "dispatch_timeout is %s, must not be longer than the queue's time to live (%s under profile %s): the message would die while it can still be claimed",
				yamlfile.Short(d), yamlfile.Short(q.WorkerQueueTTL()), p)
			break
		}
	}
	return limits
}

func (l *loader) readFails(n *yaml.Node, a *Action) {
	m, ok := l.Mapping(n, failsShape())
	if !ok {
		return
	}
	if m.Has("rate") {
		a.FailPerMillion, _ = l.Share(m.At("rate"), "rate")
	}
	if r := m.At("reason"); r != nil {
		if a.FailReason, ok = findReason(r.Value); !ok || r.Kind != yaml.ScalarNode {
			l.Choice(r, "reason", reasonNames())
		}
	}
	if c := m.At("exit_codes"); c != nil {
		a.FailCodes = l.readExitCodes(c, "exit_codes")
	}
	if m.Has("reason") == m.Has("exit_codes") {
		l.Refuse(n, "give either reason or exit_codes under fails: a run fails for a reason or with an exit code")
	}
}

// readExitCodes reads a list of distinct exit codes of failures.
func (l *loader) readExitCodes(n *yaml.Node, key string) (codes []int) {
	items, ok := l.Items(n, key)
	if ok && len(items) == 0 {
		l.Refuse(n, "%s is empty: name exit codes from 1 to %d, or leave it out", key, execution.MaxExitCode)
	}
	for _, item := range items {
		code, ok := l.Integer(item, "an exit code under "+key, 1, execution.MaxExitCode)
		if ok && slices.Contains(codes, int(code)) {
			l.Refuse(item, "duplicate exit code %d under %s", code, key)
		}
		codes = append(codes, int(code))
	}
	return codes
}

// refuseUnrunnableActions refuses actions that no worker can run: they would fail in every run, whatever the
// scenario tests. A scenario that expects no_workers_failed may have such actions.
func (l *loader) refuseUnrunnableActions(n *yaml.Node) {
	if !l.clusterOK || l.expectsNoWorkers || n.Kind != yaml.MappingNode {
		return
	}
	var known []string
	for _, w := range l.s.Cluster.Workers {
		for _, runtime := range w.Runtimes {
			if !slices.Contains(known, runtime) {
				known = append(known, runtime)
			}
		}
	}
	for _, a := range l.s.Actions {
		if a.Runtime == "" || slices.Contains(known, a.Runtime) {
			continue
		}
		at := valueOf(valueOf(n, a.Ref), "runtime")
		l.Unknown(at, fmt.Sprintf("no worker has the runtime %q; if that is meant, expect no_workers_failed", a.Runtime), a.Runtime, known)
	}
}

// valueOf returns the value of a key in a mapping, or the mapping itself without the key.
func valueOf(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return n
}
