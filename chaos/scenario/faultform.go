package scenario

import (
	"strings"

	"go.yaml.in/yaml/v4"

	"handoff/core/config/yamlfile"
)

// form is one way to write a fault: its key in the file and what belongs to it.
type form struct {
	key   string
	about string
	value yamlfile.Schema
	// lasts says that it needs `for`; otherwise the process may come back after `restart_after`.
	lasts bool
	// inside says that its value is a yamlfile.Mapping, in which `for` may stand too.
	inside bool
	read   func(*loader, *yaml.Node, *Fault)
}

// forms lists the keys of which a fault has exactly one.
func forms() []form {
	process := yamlfile.StringSchema()
	return []form{
		{string(Crash), faultAbout(Crash), process, false, false, strikesProcess(Crash)},
		{string(Pause), faultAbout(Pause), process, true, false, strikesProcess(Pause)},
		{string(Freeze), faultAbout(Freeze), process, true, false, strikesProcess(Freeze)},
		{string(Stop), faultAbout(Stop), process, false, false, strikesProcess(Stop)},
		{string(Partition), faultAbout(Partition), partitionShape().Object(), true, true, (*loader).partition},
		{string(Latency), faultAbout(Latency), latencyShape().Object(), true, true, (*loader).latency},
		{string(Reset), faultAbout(Reset), resetShape().Object(), true, true, (*loader).reset},
		{Broker, verbsAbout(brokerVerbs()), yamlfile.Enum(firstsOf(brokerVerbs())), true, false, (*loader).broker},
		{Database, verbsAbout(databaseVerbs()) + "; or one of its mappings", databaseSchema(), true, false, (*loader).database},
		{"messages", "messages of one type are lost, late, doubled or unreadable", messagesSchema(), true, true, (*loader).messages},
		{string(StopCutShort), faultAbout(StopCutShort), cutShortShape().Object(), false, false, (*loader).cutShort},
		{string(RollingRestart), faultAbout(RollingRestart), rollingShape().Object(), true, false, (*loader).rolling},
		{string(Deaf), faultAbout(Deaf), process, true, false, strikesWorker(Deaf)},
		{string(Mute), faultAbout(Mute), process, true, false, strikesWorker(Mute)},
		{string(Sick), faultAbout(Sick), process, true, false, strikesWorker(Sick)},
		{string(Cordon), faultAbout(Cordon), process, true, false, strikesWorker(Cordon)},
		{string(Drain), faultAbout(Drain), process, false, false, strikesWorker(Drain)},
		{string(Twin), faultAbout(Twin), process, true, false, (*loader).twin},
		{string(SlowLink), faultAbout(SlowLink), slowLinkShape().Object(), true, true, (*loader).slowLink},
		{string(DeleteQueue), faultAbout(DeleteQueue), process, true, false, strikesQueue(DeleteQueue)},
		{string(CancelConsumers), faultAbout(CancelConsumers), process, true, false, strikesQueue(CancelConsumers)},
		{string(BlockConsumers), faultAbout(BlockConsumers), process, true, false, strikesQueue(BlockConsumers)},
		{string(UnbindQueue), faultAbout(UnbindQueue), process, true, false, strikesQueue(UnbindQueue)},
		{string(ClockOffset), faultAbout(ClockOffset), clockShape(ClockOffset).Object(), true, false, shiftsClock(ClockOffset)},
		{string(ClockStep), faultAbout(ClockStep), clockShape(ClockStep).Object(), true, false, shiftsClock(ClockStep)},
		{string(ClockDrift), faultAbout(ClockDrift), clockShape(ClockDrift).Object(), true, false, shiftsClock(ClockDrift)},
		{string(PublishMessages), faultAbout(PublishMessages), publishShape().Object(), true, true, (*loader).publish},
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

func faultShape() yamlfile.Shape {
	s := yamlfile.NewShape("the fault", yamlfile.Required("when", "when it begins", whenSchema()))
	for _, f := range forms() {
		s.Keys = append(s.Keys, yamlfile.Optional(f.key, f.about, f.value))
	}
	s.Keys = append(s.Keys,
		yamlfile.Optional("for", "how long it lasts", drawnSchema("for")),
		yamlfile.Optional("restart_after", "when a crashed or stopped process comes back; left out: never", drawnSchema("restart_after")))
	return s
}

// faultSchema says in JSON Schema what a shape can't: exactly one kind, and what belongs to it.
func faultSchema() yamlfile.Schema {
	var kinds []any
	for _, f := range forms() {
		kind := yamlfile.Schema{"required": []string{f.key}}
		switch {
		case f.once():
			kind["properties"] = yamlfile.Schema{"for": false, "restart_after": false}
		case !f.lasts:
			kind["properties"] = yamlfile.Schema{"for": false}
		case f.inside:
			kind["properties"] = yamlfile.Schema{"restart_after": false}
			kind["oneOf"] = []any{
				yamlfile.Schema{"required": []string{"for"}},
				yamlfile.Schema{"properties": yamlfile.Schema{f.key: yamlfile.Schema{"required": []string{"for"}}}},
			}
		default:
			kind["properties"] = yamlfile.Schema{"restart_after": false}
			kind["required"] = []string{f.key, "for"}
		}
		kinds = append(kinds, kind)
	}
	out := faultShape().Object()
	out["oneOf"] = kinds
	return out
}

func whenSchema() yamlfile.Schema {
	out := whenShape().Object()
	out["oneOf"] = []any{
		yamlfile.Schema{"required": []string{"at"}}, yamlfile.Schema{"required": []string{"between"}}, yamlfile.Schema{"required": []string{"after"}},
	}
	return out
}

func messagesSchema() yamlfile.Schema {
	out := messagesShape().Object()
	var verbs []any
	for _, v := range messageVerbs() {
		verbs = append(verbs, yamlfile.Schema{"required": []string{v.name}})
	}
	out["oneOf"] = verbs
	return out
}

func whenShape() yamlfile.Shape {
	return yamlfile.NewShape("when",
		yamlfile.Optional("at", "at a time after the start", yamlfile.DurationSchema()),
		yamlfile.Optional("between", "at a time that is drawn: the earliest and the latest", yamlfile.SpanSchema()),
		yamlfile.Optional("after", "when something has happened", yamlfile.Described(triggersAbout())),
		yamlfile.Optional("of", "the worker that it happened to; left out: any", yamlfile.StringSchema()),
		yamlfile.Optional("nth", "the how-manieth time; left out: 1", yamlfile.IntegerSchema(1, maxCount)),
		yamlfile.Optional("plus", "how long after it; left out: at once", yamlfile.DurationSchema()),
	)
}

func partitionShape() yamlfile.Shape {
	return yamlfile.NewShape("partition",
		yamlfile.Required("cut", "the process that is cut off", yamlfile.StringSchema()),
		yamlfile.Required("from", "the other ends", yamlfile.SomeSetOf(yamlfile.Enum(otherEnds()))),
		yamlfile.Optional("direction", "which way, seen from the process: outgoing loses what it sends, incoming what is sent to it; left out: both", yamlfile.Enum(directionNames())),
		yamlfile.Optional("for", "how long it lasts", drawnSchema("for")),
	)
}

func latencyShape() yamlfile.Shape {
	return yamlfile.NewShape("latency",
		yamlfile.Required("of", "the process whose link is slow", yamlfile.StringSchema()),
		yamlfile.Required("to", "the other ends", yamlfile.SomeSetOf(yamlfile.Enum(otherEnds()))),
		yamlfile.Required("adds", "what each message takes longer, or the least and the most", yamlfile.Schema{"oneOf": []any{yamlfile.DurationSchema(), yamlfile.SpanSchema()}}),
		yamlfile.Optional("direction", "which way, seen from the process; left out: both", yamlfile.Enum(directionNames())),
		yamlfile.Optional("for", "how long it lasts", drawnSchema("for")),
	)
}

func resetShape() yamlfile.Shape {
	return yamlfile.NewShape("reset",
		yamlfile.Required("of", "the process whose calls lose their connection", yamlfile.StringSchema()),
		yamlfile.Required("to", "the other ends", yamlfile.SomeSetOf(yamlfile.Enum(otherEnds()))),
		yamlfile.Optional("rate", "the share of the calls; left out: all", yamlfile.ShareSchema()),
		yamlfile.Optional("for", "how long it lasts", drawnSchema("for")),
	)
}

func messagesShape() yamlfile.Shape {
	s := yamlfile.NewShape("messages")
	types := yamlfile.Enum(append(MessageTypes(), EveryMessage))
	for _, v := range messageVerbs() {
		s.Keys = append(s.Keys, yamlfile.Optional(v.name, faultAbout(v.kind)+`; "*" for every type`, types))
	}
	s.Keys = append(s.Keys,
		yamlfile.Optional("by", "how late delayed messages are, or the least and the most", yamlfile.Schema{"oneOf": []any{yamlfile.DurationSchema(), yamlfile.SpanSchema()}}),
		yamlfile.Optional("rate", "the share of the messages; left out: all", yamlfile.ShareSchema()),
		yamlfile.Optional("for", "how long it lasts", drawnSchema("for")))
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
