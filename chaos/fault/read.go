package fault

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"handoff/core/config/yamlfile"
)

// This file reads an entry of `faults`: it finds the kind and lets the fault read its value.

// Reader reads the fields of a fault. The methods of yamlfile.Reader read general values; those defined here
// know the cluster. Each notes a problem with its position and then returns the zero value.
type Reader struct {
	*yamlfile.Reader
	// Value is the value in the file: a single name, or the mapping of the kind's Keys.
	Value *yaml.Node

	keys    yamlfile.Mapping
	cluster Cluster
	// judged reports whether the cluster was read without errors, so that names can be checked against it.
	judged bool
	kind   *Kind
	begins Begins
}

// Begins is the time at which a fault begins. A target must have started by then.
type Begins struct {
	// Latest is the latest time at which the fault may begin; unused after a trigger.
	Latest       time.Duration
	AfterTrigger bool
	// Starts maps each worker that starts later than the cluster to its start time.
	Starts map[string]time.Duration
}

// At returns the value of one of the kind's keys, or nil if the file lacks the key.
func (r *Reader) At(key string) *yaml.Node { return r.keys.At(key) }

// Process reads a process or a selector of processes.
func (r *Reader) Process(n *yaml.Node) string {
	if n == nil || !r.judged {
		return ""
	}
	if n.Value == Broker || n.Value == Database {
		r.Refuse(n, "the %s is no process of the cluster; write %s: kill or %s: restart", n.Value, n.Value, n.Value)
		return ""
	}
	target, ok := r.Choice(n, "target", r.cluster.Processes())
	if starts := r.begins.Starts[target]; ok && !r.begins.AfterTrigger && r.begins.Latest < starts {
		r.Refuse(n, "%s starts at %s, after this fault", target, yamlfile.Short(starts))
	}
	return target
}

// Worker reads a worker or a selector of workers.
func (r *Reader) Worker(n *yaml.Node) string { return r.oneOf(n, "worker", r.cluster.WorkerTargets()) }

// OneWorker reads a worker, or AnyWorker.
func (r *Reader) OneWorker(n *yaml.Node) string {
	return r.oneOf(n, "worker", append(slices.Clone(r.cluster.Workers), AnyWorker))
}

// Queue reads a queue: one of the executors' queues, or a worker or selector of workers for their own.
func (r *Reader) Queue(n *yaml.Node) string {
	return r.oneOf(n, "queue", append(ExecutorQueues(), r.cluster.WorkerTargets()...))
}

// Clock reads the owner of a clock: a process, a selector of processes, or the database.
func (r *Reader) Clock(n *yaml.Node) string {
	return r.oneOf(n, "clock", append(r.cluster.Processes(), Database))
}

func (r *Reader) oneOf(n *yaml.Node, what string, names []string) string {
	if n == nil || !r.judged {
		return ""
	}
	name, _ := r.Choice(n, what, names)
	return name
}

// Adds reads a fixed duration or a range, such as 2s or [1s, 3s].
func (r *Reader) Adds(key string) Span {
	n := r.At(key)
	switch {
	case n == nil:
		return Span{}
	case n.Kind == yaml.SequenceNode:
		least, most, _ := r.Span(n, key, 0)
		return Span{least, most}
	}
	d, _ := r.Duration(n, key, time.Millisecond)
	return Span{d, d}
}

// DurationOf reads the duration under a key: at least a millisecond.
func (r *Reader) DurationOf(key string) time.Duration {
	if n := r.At(key); n != nil {
		d, _ := r.Duration(n, key, time.Millisecond)
		return d
	}
	return 0
}

// Rate reads a share in millionths; it returns 1,000,000 if the key is missing.
func (r *Reader) Rate(key string) uint64 {
	if n := r.At(key); n != nil {
		share, _ := r.Share(n, key)
		return share
	}
	return 1_000_000
}

// Entry is a decoded entry of `faults`.
type Entry struct {
	Kind  *Kind
	Fault Fault
	// Key is the node of the kind's key, and Value the node of its value.
	Key, Value *yaml.Node
	// For is the value of a `for` among the kind's own keys, nil if there is none.
	For *yaml.Node
}

// Read finds the kind of an entry of `faults` and reads its fields. ok is false if the entry names no kind.
// All other problems were noted. judged reports whether the cluster was read without errors.
func Read(r *yamlfile.Reader, entry yamlfile.Mapping, c Cluster, judged bool, b Begins) (e Entry, ok bool) {
	var keys []string
	for _, g := range kindGroups() {
		if entry.Has(g.key) {
			keys = append(keys, g.key)
		}
	}
	if len(keys) != 1 {
		refuseCount(r, entry, keys)
		return Entry{}, false
	}
	g := findGroup(keys[0])
	e.Key, e.Value = entry.Keys[g.key], entry.At(g.key)
	f := &Reader{Reader: r, Value: e.Value, cluster: c, judged: judged, begins: b}
	if e.Kind, ok = g.kindOf(f); !ok {
		return e, false
	}
	f.kind, e.For, e.Fault = e.Kind, f.keys.At("for"), e.Kind.blank()
	e.Fault.Read(f)
	return e, true
}

// refuseCount refuses an entry without a kind or with several.
func refuseCount(r *yamlfile.Reader, entry yamlfile.Mapping, keys []string) {
	if len(keys) > 1 {
		slices.SortFunc(keys, func(a, b string) int {
			x, y := entry.Keys[a], entry.Keys[b]
			return (x.Line-y.Line)*10_000 + x.Column - y.Column
		})
		r.Refuse(entry.Keys[keys[1]], "two kinds in one fault, %s and %s: write two faults", keys[0], keys[1])
		return
	}
	if entry.Invalid { // the unknown key, already refused, is probably the kind
		return
	}
	r.Unknown(entry.Node, "the fault does nothing: it needs one kind", "", keysOf(kindGroups()))
}

// kindGroup holds the kinds under one key of the file.
type kindGroup struct {
	key   string
	kinds []*Kind
}

// kindGroups lists the groups, sorted by key. An entry has exactly one of these keys.
func kindGroups() []kindGroup {
	var list []kindGroup
	for _, k := range Kinds() {
		i := slices.IndexFunc(list, func(g kindGroup) bool { return g.key == k.yamlKey() })
		if i < 0 {
			list, i = append(list, kindGroup{key: k.yamlKey()}), len(list)
		}
		list[i].kinds = append(list[i].kinds, k)
	}
	slices.SortFunc(list, func(a, b kindGroup) int { return strings.Compare(a.key, b.key) })
	return list
}

func findGroup(key string) kindGroup {
	all := kindGroups()
	return all[slices.IndexFunc(all, func(g kindGroup) bool { return g.key == key })]
}

func keysOf(all []kindGroup) (keys []string) {
	for _, g := range all {
		keys = append(keys, g.key)
	}
	return keys
}

// yamlKey returns the key of the file that names the kind, alone or shared with others.
func (k *Kind) yamlKey() string {
	if k.Under != "" {
		return k.Under
	}
	return k.Name
}

// HasFor reports whether the kind's value may contain `for`.
func (k *Kind) HasFor() bool {
	return slices.ContainsFunc(k.Keys, func(key yamlfile.Key) bool { return key.Name == "for" })
}

// isSingleKind reports whether the key names a single kind.
func (kg kindGroup) isSingleKind() bool { return kg.kinds[0].Under == "" }

// kindNames lists the names, under the key, of the kinds that take a mapping or of the kinds that don't.
func (kg kindGroup) kindNames(mapping bool) (names []string) {
	for _, k := range kg.kinds {
		if (len(k.Keys) > 0) == mapping {
			names = append(names, k.As)
		}
	}
	return names
}

// kindNamed returns the kind with a name under the key, or nil if there is none.
func (kg kindGroup) kindNamed(as string) *Kind {
	i := slices.IndexFunc(kg.kinds, func(k *Kind) bool { return k.As == as })
	if i < 0 {
		return nil
	}
	return kg.kinds[i]
}

// kindOf finds the kind that a value names, and reads its mapping.
func (kg kindGroup) kindOf(r *Reader) (k *Kind, ok bool) {
	if kg.isSingleKind() {
		k = kg.kinds[0]
		if len(k.Keys) > 0 {
			r.keys, ok = r.Mapping(r.Value, kg.mappingShape())
			return k, ok
		}
		return k, true
	}
	if kg.takesNoValue(r) {
		return nil, false
	}
	words, mapped := kg.kindNames(false), kg.kindNames(true)
	if len(words) > 0 && r.Value.Kind != yaml.MappingNode || len(mapped) == 0 {
		word, good := r.Choice(r.Value, "fault of the "+kg.key, append(words, mapped...))
		if k = kg.kindNamed(word); good && len(k.Keys) > 0 {
			r.Refuse(r.Value, "%s says more than its name: write %s", word, k.Example)
			return nil, false
		}
		return k, good
	}
	if r.keys, ok = r.Mapping(r.Value, kg.mappingShape()); !ok {
		return nil, false
	}
	var given []string
	for _, as := range mapped {
		if r.keys.Has(as) {
			given = append(given, as)
		}
	}
	if len(given) != 1 {
		if !r.keys.Invalid {
			r.Unknown(r.Value, kg.key+" must say exactly one thing", "", mapped)
		}
		return nil, false
	}
	k = kg.kindNamed(given[0])
	kg.checkKeys(r, k)
	return k, true
}

// takesNoValue refuses a mapping whose key is a kind without fields.
func (kg kindGroup) takesNoValue(r *Reader) bool {
	for i := 0; r.Value.Kind == yaml.MappingNode && i+1 < len(r.Value.Content); i += 2 {
		name := r.Value.Content[i]
		if k := kg.kindNamed(name.Value); k != nil && len(k.Keys) == 0 {
			r.Refuse(name, "%s takes no value: write %s", name.Value, k.Example)
			return true
		}
	}
	return false
}

// checkKeys refuses keys of other kinds, and reports missing keys of this kind.
func (kg kindGroup) checkKeys(r *Reader, k *Kind) {
	own := yamlfile.NewShape(kg.key, k.Keys...)
	for _, key := range kg.mappingShape().Keys {
		if slices.Contains(own.Names(), key.Name) || !r.keys.Has(key.Name) {
			continue
		}
		var owners []string
		for _, other := range kg.kinds {
			if slices.Contains(yamlfile.NewShape("", other.Keys...).Names(), key.Name) {
				owners = append(owners, other.As)
			}
		}
		r.Refuse(r.keys.Keys[key.Name], "`%s` belongs to %s, not to %s", key.Name, strings.Join(owners, " and "), k.As)
	}
	for _, key := range k.Keys {
		if key.Required && !r.keys.Has(key.Name) && !r.keys.Invalid {
			r.Refuse(r.Value, "the %s lacks %q: %s", k.As, key.Name, key.About)
		}
	}
}

// mappingShape returns the mapping under the key: the keys of all its kinds.
func (kg kindGroup) mappingShape() yamlfile.Shape {
	s := yamlfile.NewShape(kg.key)
	for _, k := range kg.kinds {
		for _, key := range k.Keys {
			if slices.Contains(s.Names(), key.Name) {
				continue
			}
			key.Required = key.Required && kg.isSingleKind()
			s.Keys = append(s.Keys, key)
		}
	}
	return s
}

// valueSchema returns the schema of the key's value.
func (kg kindGroup) valueSchema() yamlfile.Schema {
	object := kg.mappingShape().Object()
	words, mapped := kg.kindNames(false), kg.kindNames(true)
	switch {
	case kg.isSingleKind() && len(kg.kinds[0].Keys) == 0:
		return yamlfile.StringSchema()
	case kg.isSingleKind():
		return object
	case len(mapped) == 0:
		return yamlfile.Schema{"oneOf": kg.wordSchemas(words)}
	}
	var one []any
	for _, as := range mapped {
		one = append(one, yamlfile.Schema{"required": []string{as}})
	}
	object["oneOf"] = one
	if len(words) == 0 {
		return object
	}
	return yamlfile.Schema{"oneOf": append(kg.wordSchemas(words), object)}
}

// wordSchemas returns a schema for each kind that is a single word, with a description that editors show
// next to the word.
func (kg kindGroup) wordSchemas(words []string) (each []any) {
	for _, as := range words {
		each = append(each, yamlfile.Schema{"const": as, "description": kg.kindNamed(as).About})
	}
	return each
}

// aboutText describes the key, for editors and lists.
func (kg kindGroup) aboutText() string {
	if kg.isSingleKind() {
		return kg.kinds[0].About
	}
	var texts []string
	for _, k := range kg.kinds {
		texts = append(texts, k.As+": "+k.About)
	}
	return strings.Join(texts, "; ")
}

// Keys lists the keys that name a kind. An entry of `faults` has exactly one of them.
func Keys() []yamlfile.Key {
	var keys []yamlfile.Key
	for _, g := range kindGroups() {
		keys = append(keys, yamlfile.Optional(g.key, g.aboutText(), g.valueSchema()))
	}
	return keys
}

// Schemas returns rules that a shape can't express: which other keys an entry has with each kind.
func Schemas() []any {
	var all []any
	for _, g := range kindGroups() {
		kind := yamlfile.Schema{"required": []string{g.key}}
		switch k := g.kinds[0]; {
		case k.Ends == ByItself:
			kind["properties"] = yamlfile.Schema{"for": false, "restart_after": false}
		case k.Ends == WithRestart:
			kind["properties"] = yamlfile.Schema{"for": false}
		case k.HasFor():
			kind["properties"] = yamlfile.Schema{"restart_after": false}
			kind["oneOf"] = []any{
				yamlfile.Schema{"required": []string{"for"}},
				yamlfile.Schema{"properties": yamlfile.Schema{g.key: yamlfile.Schema{"required": []string{"for"}}}},
			}
		default:
			kind["properties"] = yamlfile.Schema{"restart_after": false}
			kind["required"] = []string{g.key, "for"}
		}
		all = append(all, kind)
	}
	return all
}

// These keys belong to several kinds.

func forKey() yamlfile.Key {
	return yamlfile.Optional("for", "how long it lasts", DrawnSchema("for"))
}

func rateKey(of string) yamlfile.Key {
	return yamlfile.Optional("rate", fmt.Sprintf("the share of the %s; left out: all", of), yamlfile.ShareSchema())
}

func spanOrOne() yamlfile.Schema {
	return yamlfile.Schema{"oneOf": []any{yamlfile.DurationSchema(), yamlfile.SpanSchema()}}
}
