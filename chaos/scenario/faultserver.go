package scenario

import (
	"slices"

	"go.yaml.in/yaml/v4"
)

// This file reads what strikes the broker, its queues and the database.

func brokerVerbs() []verb {
	return []verb{{"restart", BrokerRestart}, {"kill", BrokerKill}, {"alarm", BrokerAlarm}}
}

func databaseVerbs() []verb {
	return []verb{{"restart", DatabaseRestart}, {"kill", DatabaseKill}, {"read_only", DatabaseReadOnly}}
}

func databaseShape() shape {
	return shape{"database", []key{
		{"slow", faultAbout(DatabaseSlow) + ": by how much, or the least and the most", false, schema{"oneOf": []any{durationSchema(), spanSchema()}}},
		{"serialization_failures", faultAbout(Serialization), false, shareSchema()},
	}}
}

func databaseSchema() schema {
	either := databaseShape().object()
	either["minProperties"], either["maxProperties"] = 1, 1
	return schema{"oneOf": []any{enum(firstsOf(databaseVerbs())), either}}
}

func (l *loader) broker(n *yaml.Node, f *Fault) {
	f.Target = Broker
	name, _ := l.choice(n, "fault of the broker", firstsOf(brokerVerbs()))
	f.Kind = kindOfVerb(brokerVerbs(), name)
}

func (l *loader) database(n *yaml.Node, f *Fault) {
	f.Target = Database
	if n.Kind != yaml.MappingNode {
		name, _ := l.choice(n, "fault of the database", append(firstsOf(databaseVerbs()), databaseShape().names()...))
		if f.Kind = kindOfVerb(databaseVerbs(), name); f.Kind == "" && slices.Contains(databaseShape().names(), name) {
			l.refuse(n, "%s says how much, such as {slow: [100ms, 3s]} or {serialization_failures: 30%%}", name)
		}
		return
	}
	m, ok := l.mapping(n, databaseShape())
	switch {
	case !ok:
	case m.has("slow") == m.has("serialization_failures"):
		if !m.invalid {
			l.unknown(n, "the database's mapping must say exactly one thing", "", databaseShape().names())
		}
	case m.has("slow"):
		f.Kind = DatabaseSlow
		f.DelayMin, f.DelayMax = l.oneOrSpan(m.at("slow"), "slow")
	default:
		f.Kind = Serialization
		f.PerMillion = l.share(m.at("serialization_failures"), "serialization_failures")
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
			f.Target, _ = l.choice(n, "queue", append(ExecutorQueues(), l.s.Cluster.workerTargets()...))
		}
	}
}

func slowLinkShape() shape {
	return shape{"slow_link", []key{
		{"of", "the process whose link is slow", true, schema{"type": "string"}},
		{"to", "the other ends", true, someSetOf(enum(otherEnds()))},
		{"takes", "how long the link is busy with one message, or the least and the most", true, schema{"oneOf": []any{durationSchema(), spanSchema()}}},
		{"direction", "which way, seen from the process; left out: both", false, enum(directionNames())},
		{"for", "how long it lasts", false, drawnSchema("for")},
	}}
}

func (l *loader) slowLink(n *yaml.Node, f *Fault) {
	f.Kind, f.Direction = SlowLink, Both
	m, ok := l.mapping(n, slowLinkShape())
	if !ok {
		return
	}
	l.link(m, f, "of", "to")
	if m.has("takes") {
		f.DelayMin, f.DelayMax = l.oneOrSpan(m.at("takes"), "takes")
	}
}
