package scenario

import (
	"slices"

	"go.yaml.in/yaml/v4"

	"handoff/core/config/yamlfile"
)

// This file reads what strikes the broker, its queues and the database.

func brokerVerbs() []verb {
	return []verb{{"restart", BrokerRestart}, {"kill", BrokerKill}, {"alarm", BrokerAlarm}}
}

func databaseVerbs() []verb {
	return []verb{{"restart", DatabaseRestart}, {"kill", DatabaseKill}, {"read_only", DatabaseReadOnly}}
}

func databaseShape() yamlfile.Shape {
	return yamlfile.NewShape("database",
		yamlfile.Optional("slow", faultAbout(DatabaseSlow)+": by how much, or the least and the most", yamlfile.Schema{"oneOf": []any{yamlfile.DurationSchema(), yamlfile.SpanSchema()}}),
		yamlfile.Optional("serialization_failures", faultAbout(Serialization), yamlfile.ShareSchema()),
	)
}

func databaseSchema() yamlfile.Schema {
	either := databaseShape().Object()
	either["minProperties"], either["maxProperties"] = 1, 1
	return yamlfile.Schema{"oneOf": []any{yamlfile.Enum(firstsOf(databaseVerbs())), either}}
}

func (l *loader) broker(n *yaml.Node, f *Fault) {
	f.Target = Broker
	name, _ := l.Choice(n, "fault of the broker", firstsOf(brokerVerbs()))
	f.Kind = kindOfVerb(brokerVerbs(), name)
}

func (l *loader) database(n *yaml.Node, f *Fault) {
	f.Target = Database
	if n.Kind != yaml.MappingNode {
		name, _ := l.Choice(n, "fault of the database", append(firstsOf(databaseVerbs()), databaseShape().Names()...))
		if f.Kind = kindOfVerb(databaseVerbs(), name); f.Kind == "" && slices.Contains(databaseShape().Names(), name) {
			l.Refuse(n, "%s says how much, such as {slow: [100ms, 3s]} or {serialization_failures: 30%%}", name)
		}
		return
	}
	m, ok := l.Mapping(n, databaseShape())
	switch {
	case !ok:
	case m.Has("slow") == m.Has("serialization_failures"):
		if !m.Invalid {
			l.Unknown(n, "the database's mapping must say exactly one thing", "", databaseShape().Names())
		}
	case m.Has("slow"):
		f.Kind = DatabaseSlow
		f.DelayMin, f.DelayMax = l.oneOrSpan(m.At("slow"), "slow")
	default:
		f.Kind = Serialization
		f.PerMillion, _ = l.Share(m.At("serialization_failures"), "serialization_failures")
	}
}

// The executors' queues, as targets of queue faults; a worker's name stands for its own.
const (
	RequestedQueue     = "requested"
	StatusChangedQueue = "status_changed"
	CompletedQueue     = "completed"
	DeadLetterQueue    = "dead_letters"
)

// ExecutorQueues lists the queues that belong to no worker.
func ExecutorQueues() []string {
	return []string{RequestedQueue, StatusChangedQueue, CompletedQueue, DeadLetterQueue}
}

// strikesQueue reads a kind whose value is a queue: one of the executors', or that of one or more workers.
func strikesQueue(k FaultKind) func(*loader, *yaml.Node, *Fault) {
	return func(l *loader, n *yaml.Node, f *Fault) {
		f.Kind = k
		if l.clusterOK {
			f.Target, _ = l.Choice(n, "queue", append(ExecutorQueues(), l.s.Cluster.workerTargets()...))
		}
	}
}

func slowLinkShape() yamlfile.Shape {
	return yamlfile.NewShape("slow_link",
		yamlfile.Required("of", "the process whose link is slow", yamlfile.StringSchema()),
		yamlfile.Required("to", "the other ends", yamlfile.SomeSetOf(yamlfile.Enum(otherEnds()))),
		yamlfile.Required("takes", "how long the link is busy with one message, or the least and the most", yamlfile.Schema{"oneOf": []any{yamlfile.DurationSchema(), yamlfile.SpanSchema()}}),
		yamlfile.Optional("direction", "which way, seen from the process; left out: both", yamlfile.Enum(directionNames())),
		yamlfile.Optional("for", "how long it lasts", drawnSchema("for")),
	)
}

func (l *loader) slowLink(n *yaml.Node, f *Fault) {
	f.Kind, f.Direction = SlowLink, Both
	m, ok := l.Mapping(n, slowLinkShape())
	if !ok {
		return
	}
	l.link(m, f, "of", "to")
	if m.Has("takes") {
		f.DelayMin, f.DelayMax = l.oneOrSpan(m.At("takes"), "takes")
	}
}
