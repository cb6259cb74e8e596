package scenario

import (
	"strings"

	"go.yaml.in/yaml/v4"
)

// form is one way to write a fault: its key in the file and what belongs to it.
type form struct {
	key   string
	about string
	value schema
	// lasts says that it needs `for`; otherwise the process may come back after `restart_after`.
	lasts bool
	// inside says that its value is a mapping, in which `for` may stand too.
	inside bool
	read   func(*loader, *yaml.Node, *Fault)
}

// forms lists the keys of which a fault has exactly one.
func forms() []form {
	process := schema{"type": "string"}
	return []form{
		{string(Crash), faultAbout(Crash), process, false, false, strikesProcess(Crash)},
		{string(Pause), faultAbout(Pause), process, true, false, strikesProcess(Pause)},
		{string(Freeze), faultAbout(Freeze), process, true, false, strikesProcess(Freeze)},
		{string(Stop), faultAbout(Stop), process, false, false, strikesProcess(Stop)},
		{string(Partition), faultAbout(Partition), partitionShape().object(), true, true, (*loader).partition},
		{string(Latency), faultAbout(Latency), latencyShape().object(), true, true, (*loader).latency},
		{string(Reset), faultAbout(Reset), resetShape().object(), true, true, (*loader).reset},
		{Broker, verbsAbout(brokerVerbs()), enum(firstsOf(brokerVerbs())), true, false, (*loader).broker},
		{Database, verbsAbout(databaseVerbs()) + "; or one of its mappings", databaseSchema(), true, false, (*loader).database},
		{"messages", "messages of one type are lost, late, doubled or unreadable", messagesSchema(), true, true, (*loader).messages},
		{string(StopCutShort), faultAbout(StopCutShort), cutShortShape().object(), false, false, (*loader).cutShort},
		{string(RollingRestart), faultAbout(RollingRestart), rollingShape().object(), true, false, (*loader).rolling},
		{string(Deaf), faultAbout(Deaf), process, true, false, strikesWorker(Deaf)},
		{string(Mute), faultAbout(Mute), process, true, false, strikesWorker(Mute)},
		{string(Sick), faultAbout(Sick), process, true, false, strikesWorker(Sick)},
		{string(Cordon), faultAbout(Cordon), process, true, false, strikesWorker(Cordon)},
		{string(Drain), faultAbout(Drain), process, false, false, strikesWorker(Drain)},
		{string(Twin), faultAbout(Twin), process, true, false, (*loader).twin},
		{string(SlowLink), faultAbout(SlowLink), slowLinkShape().object(), true, true, (*loader).slowLink},
		{string(DeleteQueue), faultAbout(DeleteQueue), process, true, false, strikesQueue(DeleteQueue)},
		{string(CancelConsumers), faultAbout(CancelConsumers), process, true, false, strikesQueue(CancelConsumers)},
		{string(BlockConsumers), faultAbout(BlockConsumers), process, true, false, strikesQueue(BlockConsumers)},
		{string(UnbindQueue), faultAbout(UnbindQueue), process, true, false, strikesQueue(UnbindQueue)},
		{string(ClockOffset), faultAbout(ClockOffset), clockShape(ClockOffset).object(), true, false, shiftsClock(ClockOffset)},
		{string(ClockStep), faultAbout(ClockStep), clockShape(ClockStep).object(), true, false, shiftsClock(ClockStep)},
		{string(ClockDrift), faultAbout(ClockDrift), clockShape(ClockDrift).object(), true, false, shiftsClock(ClockDrift)},
		{string(PublishMessages), faultAbout(PublishMessages), publishShape().object(), true, true, (*loader).publish},
	}
}

// once says that the fault is over by itself: it has neither `for` nor restart_after.
func (f form) once() bool {
	switch FaultKind(f.key) {
	case RollingRestart, DeleteQueue, CancelConsumers, ClockStep, PublishMessages:
		return true
	default:
		return false
	}
}

func faultAbout(k FaultKind) string {
	for _, f := range Faults() {
		if f.Kind == k {
			return f.About
		}
	}
	return ""
}

func faultShape() shape {
	s := shape{"the fault", []key{{"when", "when it begins", true, whenSchema()}}}
	for _, f := range forms() {
		s.keys = append(s.keys, key{f.key, f.about, false, f.value})
	}
	s.keys = append(s.keys,
		key{"for", "how long it lasts", false, drawnSchema("for")},
		key{"restart_after", "when a crashed or stopped process comes back; left out: never", false, drawnSchema("restart_after")})
	return s
}

// faultSchema says in JSON Schema what a shape can't: exactly one kind, and what belongs to it.
func faultSchema() schema {
	var kinds []any
	for _, f := range forms() {
		kind := schema{"required": []string{f.key}}
		switch {
		case f.once():
			kind["properties"] = schema{"for": false, "restart_after": false}
		case !f.lasts:
			kind["properties"] = schema{"for": false}
		case f.inside:
			kind["properties"] = schema{"restart_after": false}
			kind["oneOf"] = []any{
				schema{"required": []string{"for"}},
				schema{"properties": schema{f.key: schema{"required": []string{"for"}}}},
			}
		default:
			kind["properties"] = schema{"restart_after": false}
			kind["required"] = []string{f.key, "for"}
		}
		kinds = append(kinds, kind)
	}
	out := faultShape().object()
	out["oneOf"] = kinds
	return out
}

func whenSchema() schema {
	out := whenShape().object()
	out["oneOf"] = []any{
		schema{"required": []string{"at"}}, schema{"required": []string{"between"}}, schema{"required": []string{"after"}},
	}
	return out
}

func messagesSchema() schema {
	out := messagesShape().object()
	var verbs []any
	for _, v := range messageVerbs() {
		verbs = append(verbs, schema{"required": []string{v.name}})
	}
	out["oneOf"] = verbs
	return out
}

func whenShape() shape {
	return shape{"when", []key{
		{"at", "at a time after the start", false, durationSchema()},
		{"between", "at a time that is drawn: the earliest and the latest", false, spanSchema()},
		{"after", "when something has happened", false, described(triggersAbout())},
		{"of", "the worker that it happened to; left out: any", false, schema{"type": "string"}},
		{"nth", "the how-manieth time; left out: 1", false, schema{"type": "integer", "minimum": 1, "maximum": maxCount}},
		{"plus", "how long after it; left out: at once", false, durationSchema()},
	}}
}

func partitionShape() shape {
	return shape{"partition", []key{
		{"cut", "the process that is cut off", true, schema{"type": "string"}},
		{"from", "the other ends", true, someSetOf(enum(otherEnds()))},
		{"direction", "which way, seen from the process: outgoing loses what it sends, incoming what is sent to it; left out: both", false, enum(directionNames())},
		{"for", "how long it lasts", false, drawnSchema("for")},
	}}
}

func latencyShape() shape {
	return shape{"latency", []key{
		{"of", "the process whose link is slow", true, schema{"type": "string"}},
		{"to", "the other ends", true, someSetOf(enum(otherEnds()))},
		{"adds", "what each message takes longer, or the least and the most", true, schema{"oneOf": []any{durationSchema(), spanSchema()}}},
		{"direction", "which way, seen from the process; left out: both", false, enum(directionNames())},
		{"for", "how long it lasts", false, drawnSchema("for")},
	}}
}

func resetShape() shape {
	return shape{"reset", []key{
		{"of", "the process whose calls lose their connection", true, schema{"type": "string"}},
		{"to", "the other ends", true, someSetOf(enum(otherEnds()))},
		{"rate", "the share of the calls; left out: all", false, shareSchema()},
		{"for", "how long it lasts", false, drawnSchema("for")},
	}}
}

func messagesShape() shape {
	s := shape{where: "messages"}
	types := enum(append(MessageTypes(), EveryMessage))
	for _, v := range messageVerbs() {
		s.keys = append(s.keys, key{v.name, faultAbout(v.kind) + `; "*" for every type`, false, types})
	}
	s.keys = append(s.keys,
		key{"by", "how late delayed messages are, or the least and the most", false, schema{"oneOf": []any{durationSchema(), spanSchema()}}},
		key{"rate", "the share of the messages; left out: all", false, shareSchema()},
		key{"for", "how long it lasts", false, drawnSchema("for")})
	return s
}

// verb is a word in a file and the kind that it stands for.
type verb struct {
	name string
	kind FaultKind
}

func messageVerbs() []verb {
	return []verb{
		{"drop", DropMessages},
		{"delay", DelayMessages},
		{"duplicate", DuplicateMessage},
		{"corrupt", CorruptMessages},
		{"reorder", ReorderMessages},
	}
}

func firstsOf(verbs []verb) []string {
	names := make([]string, len(verbs))
	for i, v := range verbs {
		names[i] = v.name
	}
	return names
}

func kindOfVerb(verbs []verb, name string) FaultKind {
	for _, v := range verbs {
		if v.name == name {
			return v.kind
		}
	}
	return ""
}

func verbsAbout(verbs []verb) string {
	texts := make([]string, len(verbs))
	for i, v := range verbs {
		texts[i] = v.name + ": " + faultAbout(v.kind)
	}
	return strings.Join(texts, "; ")
}

func directionNames() []string { return []string{string(Both), string(Outgoing), string(Incoming)} }

// otherEnds are what a process has links to. Workers have one to the executors for their health probes
// and for nothing else; to a single other process nobody has one.
func otherEnds() []string { return []string{Broker, Database, Executors} }
