package scenario

import (
	"go.yaml.in/yaml/v4"

	"handoff/core/config/yamlfile"
)

// This file reads what somebody does who can reach the broker and publish to it.

// Attack is a kind of message that an attacker publishes.
type Attack string

// The kinds of messages.
const (
	// Garbage has a body that nobody can read.
	Garbage Attack = "garbage"
	// HostileHeaders is a message that can be read and carries an x-death header that the broker did not write. RabbitMQ
	// 3.10 stops dead-lettering, on the whole node and until it is restarted, if such a message dies.
	HostileHeaders Attack = "hostile_headers"
	// ForgedCancel is a hint to cancel what the worker runs, which nobody has asked for.
	ForgedCancel Attack = "forged_cancel"
	// ForgedDispatch is a dispatch that no executor has made: of an execution that runs, at a later epoch.
	ForgedDispatch Attack = "forged_dispatch"
	// BigBody is garbage of 256 KiB.
	BigBody Attack = "big_body"
)

// Attacks lists every kind of message that a publish fault knows.
func Attacks() []Attack {
	return []Attack{Garbage, HostileHeaders, ForgedCancel, ForgedDispatch, BigBody}
}

// mostPublished bounds what one fault publishes: a simulated broker keeps all of it in memory.
const mostPublished = 200_000

func attackNames() []string {
	var names []string
	for _, a := range Attacks() {
		names = append(names, string(a))
	}
	return names
}

func publishShape() yamlfile.Shape {
	return yamlfile.NewShape("publish",
		yamlfile.Required("queue", "the queue: one of the executors', or a worker's name for its own", yamlfile.StringSchema()),
		yamlfile.Required("what", "which messages; forged cancellations go to the queue of the worker's cancellations", yamlfile.Enum(attackNames())),
		yamlfile.Required("count", "how many", yamlfile.IntegerSchema(1, mostPublished)),
	)
}

// publish reads which messages an attacker publishes, and where.
func (l *loader) publish(n *yaml.Node, f *Fault) {
	f.Kind = PublishMessages
	m, ok := l.Mapping(n, publishShape())
	if !ok {
		return
	}
	if m.Has("what") {
		what, _ := l.Choice(m.At("what"), "kind of message", attackNames())
		f.What = Attack(what)
	}
	if m.Has("count") {
		count, _ := l.Integer(m.At("count"), "count", 1, mostPublished)
		f.Count = int(count)
	}
	if !m.Has("queue") || !l.clusterOK {
		return
	}
	targets := append(ExecutorQueues(), l.s.Cluster.workerTargets()...)
	if f.What == ForgedCancel || f.What == ForgedDispatch {
		targets = l.s.Cluster.workerTargets()
	}
	f.Target, _ = l.Choice(m.At("queue"), "queue", targets)
}
