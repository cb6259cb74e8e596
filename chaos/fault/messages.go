package fault

import (
	"handoff/core/broker"
	"handoff/core/config/yamlfile"
)

// This file holds the common parts of faults that strike messages.

// MessageTypes lists the types of messages that a fault can strike: those between services. The canary is
// excluded, because an executor sends it to itself.
func MessageTypes() []string {
	var names []string
	for i := 1; i < broker.Types; i++ {
		if t := broker.Type(i); t != broker.DeadLetterCanary {
			names = append(names, t.String())
		}
	}
	return names
}

// messageSelector selects the messages that a fault strikes.
type messageSelector struct {
	// Type is one of MessageTypes, or EveryMessage.
	Type string
	// PerMillion is how many of a million of these messages are struck.
	PerMillion uint64
}

// Strikes implements Fault.
func (m *messageSelector) Strikes() Strikes { return Strikes{Target: Broker, Messages: m.Type} }

// readSelector reads the keys of messageKeys.
func (m *messageSelector) readSelector(r *Reader) {
	if n := r.At(r.kind.As); n != nil {
		m.Type, _ = r.Choice(n, "message type", append(MessageTypes(), EveryMessage))
	}
	m.PerMillion = r.Rate("rate")
}

// describeMessages names the fault, for example "drop every message".
func (m *messageSelector) describeMessages(what string) string {
	if m.Type == EveryMessage {
		return what + " every message"
	}
	return what + " " + m.Type
}

// interceptMessages draws which messages are struck and calls fate for each struck message.
func (m *messageSelector) interceptMessages(x *Injection, w Messages, fate func() Fate) (func(), error) {
	return w.Intercept(x, func(messageType string) Fate {
		if m.Type != EveryMessage && m.Type != messageType || !x.Chance(m.PerMillion) {
			return Fate{}
		}
		return fate()
	})
}

// messageKeys returns the keys of a fault on messages, with the kind's own keys.
func messageKeys(as, about string, own ...yamlfile.Key) []yamlfile.Key {
	types := yamlfile.Enum(append(MessageTypes(), EveryMessage))
	keys := append([]yamlfile.Key{yamlfile.Required(as, about+`; "*" for every type`, types)}, own...)
	return append(keys, rateKey("messages"), forKey())
}

// byKey returns the key for the delay of messages.
func byKey() yamlfile.Key {
	return yamlfile.Required("by", "how late delayed messages are, or the least and the most", spanOrOne())
}
