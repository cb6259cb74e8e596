// Package netproxy is the network of a live cluster: every connection between a process and a server goes
// through a proxy of its own, so that any single link can be cut, slowed down or broken off.
//
// The proxies are toxiproxy's, in this process. A server that is not there is a proxy that toxiproxy has stopped. All else
// that happens to a link is done by one toxic of ours a way, the gate, and drawn by the caller.
//
// # Toxiproxy's own toxics
//
// They break the links where toxiproxy is a process of its own: in the containers of the compose file (package compose:
// latency, slicer, timeout, and proxies that are disabled), and by hand (package manual: latency with jitter, reset_peer,
// timeout). Not here, because each lacks something that a run needs:
//
//   - latency draws its jitter from a source that can't be seeded, one draw for 32 KiB; here a delay is drawn from the
//     run's seed for everything that passes.
//   - bandwidth limits bytes in a second; a slow link of a scenario is busy for a drawn time with each message, however
//     short. slicer comes close, with one time for all.
//   - timeout drops what it stops. A network that is cut keeps it: TCP sends it again until it arrives, late, if the
//     connection lives as long. A timeout would end every connection of a partition at its end.
//   - reset_peer ends every connection of the link at its next bytes. Here it is drawn for each frame or call whether its
//     connection breaks off, and the others live. Its end is an EOF, where reset_peer's is a reset; clients of both
//     servers take either for a lost connection.
//   - None of them knows where a message begins; those that are lost, late or doubled need AMQP.
//   - Taking one away can take minutes: for each piece that it holds of a connection whose other end is gone it waits five
//     seconds, and new connections wait for it. A gate is never taken away. A test shows both.
package netproxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Direction is which way bytes go, seen from the process.
type Direction string

// The directions, as toxiproxy calls them.
const (
	// Out is from the process to the server.
	Out Direction = "upstream"
	// In is from the server to the process.
	In Direction = "downstream"
)

// Link is the way between one process and one server.
type Link struct {
	// Address is where the process finds the server.
	Address string

	proxy *toxiproxy.Proxy
	out   *gate
	in    *gate

	mu   sync.Mutex
	down int
}

// Proxies is all links of a cluster.
type Proxies struct {
	server *toxiproxy.ApiServer
	links  []*Link
}

// New returns a network without links.
func New() *Proxies {
	return &Proxies{server: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())}
}

// Link makes a link to a server's address, HOST:PORT, for processes of this machine.
func (w *Proxies) Link(name, server string) (*Link, error) {
	return w.LinkOn("127.0.0.1", name, server)
}

// LinkOn makes a link that listens on one of this machine's addresses.
func (w *Proxies) LinkOn(ip, name, server string) (*Link, error) {
	l := &Link{proxy: toxiproxy.NewProxy(w.server, name, net.JoinHostPort(ip, "0"), server)}
	if err := l.proxy.Start(); err != nil {
		return nil, fmt.Errorf("starting the proxy %s to %s: %w", name, server, err)
	}
	l.Address = l.proxy.Listen
	w.links = append(w.links, l)
	var err error
	if l.out, err = l.addGate(Out); err == nil {
		l.in, err = l.addGate(In)
	}
	return l, err
}

// Close closes every link with its connections.
func (w *Proxies) Close() {
	for _, l := range w.links {
		l.proxy.Stop()
		for _, g := range []*gate{l.out, l.in} {
			if g != nil {
				g.open()
			}
		}
	}
}

// addGate puts our toxic on one way of the link.
func (l *Link) addGate(way Direction) (*gate, error) {
	g := newGate()
	body, err := json.Marshal(map[string]any{
		"name": "gate/" + string(way), "type": gateType, "stream": way, "toxicity": 1, "attributes": gateToxic{Key: g.key},
	})
	if err != nil {
		return nil, err
	}
	if _, err := l.proxy.Toxics.AddToxicJson(bytes.NewReader(body)); err != nil {
		return nil, fmt.Errorf("putting a gate on the way %s: %w", way, err)
	}
	return g, nil
}

// Effect is something that is done to what passes one way of a link.
type Effect struct {
	// Touch is called whenever the effect makes a difference to something; nil for nobody.
	Touch func()
	// Hold keeps everything until the effect ends: then it arrives, late, if the connection still lives.
	// That is what a cut network does to TCP, whose segments are sent again until they arrive.
	Hold bool
	// Silence loses what passes over the connections that there are when the effect begins, as when the machine at the
	// other end is gone and another one has its address: nobody ends them, and new ones work. When the effect ends, they break.
	Silence bool
	// Delay draws how much later the next bytes arrive; nil for no delay.
	Delay func() time.Duration
	// Break draws whether the connection breaks off over the next bytes, which are lost; nil for never.
	Break func() bool
	// Each draws how long the link is busy with the next bytes, one after the other; nil for no time.
	Each func() time.Duration

	// last is the number of the last connection that was there when the effect began.
	last int
}

// Begin begins an effect; end ends it.
func (l *Link) Begin(way Direction, e Effect) (end func()) { return l.gate(way).begin(&e) }

// Rewrite has every connection from now on rewritten, one way.
func (l *Link) Rewrite(way Direction, rewriter func() Rewriter) {
	l.gate(way).rewriter.Store(&rewriter)
}

// Down closes the link with its connections: the server is not there. Downs are counted.
func (l *Link) Down() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down++; l.down == 1 {
		l.proxy.Stop()
	}
}

// Up opens a link that was down.
func (l *Link) Up() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down == 0 {
		return errors.New("the link is up")
	}
	if l.down--; l.down > 0 {
		return nil
	}
	return l.proxy.Start()
}

func (l *Link) gate(way Direction) *gate {
	if way == In {
		return l.in
	}
	return l.out
}
