package fault

import (
	"fmt"

	"go.yaml.in/yaml/v4"

	"handoff/core/config/yamlfile"
)

func init() {
	Register(Kind{
		// The database is not an excuse: a process can detect in time that its connections are dead and open
		// new ones. A broker's heartbeats take longer to detect it, and dispatches wait until then.
		Name: "silent_connections", Ends: WithFor, Excuses: []Cause{LinkToBroker},
		About: "the connections that a process has to a server go silent, and new ones work, " +
			"as when a node dies whose address another one takes over; they break at the end",
		Example: "silent_connections: {of: shell-1, to: [database]}, for: 60s",
		Draw: func(d *Dice) string {
			return fmt.Sprintf("silent_connections: {of: %s, to: [%s]}", d.Process(), d.Of(Database, Broker))
		},
		Keys: []yamlfile.Key{
			processKey("of", "the process whose connections go silent"),
			yamlfile.Required("to", "the servers", yamlfile.SomeSetOf(yamlfile.Enum(connectedServers()))),
			forKey(),
		},
	}, (*silentConnections).inject)
}

// connectedServers lists the servers to which a process keeps connections.
func connectedServers() []string { return []string{Broker, Database} }

type silentConnections struct{ link }

// Read implements Fault.
func (s *silentConnections) Read(r *Reader) {
	s.Target, s.Way = r.Process(r.At("of")), Both
	if n := r.At("to"); n != nil {
		s.Ends, _ = r.Choices(n, "server", "to", connectedServers())
		if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
			r.Unknown(n, "to is empty", "", connectedServers())
		}
	}
}

// Describe implements Describer.
func (s *silentConnections) Describe() string { return s.describeLink("silent connections of", "to") }

func (s *silentConnections) inject(x *Injection, w Links) (func(), error) {
	return s.affectLinks(x, w, Effect{Silence: true})
}
