package fault

import (
	"handoff/core/broker"
	"handoff/core/config/yamlfile"
)

// This file is what faults that strike messages have in common.

// MessageTypes lists the types of messages that a fault can strike: those between the services. An executor sends its
// canary to itself.
func MessageTypes() []string {
	var names []string
	for i := 1; i < broker.Types; i++ {
		if t := broker.Type(i); t != broker.DeadLetterCanary {
			names = append(names, t.String())
		}
	}
	return names
}

// ofMessages is the messages that a fault strikes.
type ofMessages struct {
	// Type is one of MessageTypes, or EveryMessage.
	Type string
	// PerMillion is the share of these messages.
	PerMillion uint64
}

// Strikes implements Fault.
func (f *ofMessages) Strikes() Strikes { return Strikes{Target: Broker, Messages: f.Type} }

// read reads the keys of messageKeys.
func (f *ofMessages) read(r *Reader) {
	if n := r.At(r.kind.As); n != nil {
		f.Type, _ = r.Choice(n, "message type", append(MessageTypes(), EveryMessage))
	}
	f.PerMillion = r.Rate("rate")
}

// describe names a fault on messages.
func (f *ofMessages) describe(what string) string {
	if f.Type == EveryMessage {
		return what + " every message"
	}
	return what + " " + f.Type
}

// intercept draws which messages are struck and has fate say what becomes of them.
func (f *ofMessages) intercept(x *Injection, w Messages, fate func() Fate) (func(), error) {
	return w.Intercept(x, func(messageType string) Fate {
		if f.Type != EveryMessage && f.Type != messageType || !x.Chance(f.PerMillion) {
			return Fate{}
		}
		return fate()
	})
}

// messageKeys are the keys of a fault on messages, with those that are its own.
func messageKeys(as, about string, own ...yamlfile.Key) []yamlfile.Key {
	types := yamlfile.Enum(append(MessageTypes(), EveryMessage))
	keys := append([]yamlfile.Key{yamlfile.Required(as, about+`; "*" for every type`, types)}, own...)
	return append(keys, rateKey("messages"), forKey())
}

// byKey is how late messages are.
func byKey() yamlfile.Key {
	return yamlfile.Required("by", "how late delayed messages are, or the least and the most", spanOrOne())
}
