// Package netproxy is the network of a live cluster. Each pair of a process and a server has its own proxy,
// so that each link can be cut, slowed down or broken separately.
//
// The proxies are toxiproxy's, in this process. For a server that is down, toxiproxy stops the proxy. Every
// other effect comes from the gate, our own toxic for each direction of a link. The caller draws the random
// values.
//
// # Toxiproxy's own toxics
//
// They are used where toxiproxy runs as a separate process: in the containers of the compose file (package
// compose: latency, slicer, timeout, and disabled proxies), and manually (package manual: latency with
// jitter, reset_peer, timeout). This package does not use them, because none meets the needs of a run:
//
//   - latency draws its jitter from a source that can't be seeded, once for 32 KiB. Here the run's seed
//     determines every delay.
//   - bandwidth limits bytes per second, but a slow link of a scenario is busy with each message for a drawn
//     time, regardless of its length. slicer comes close, but has only one time.
//   - timeout drops the bytes that it stops. In a cut network, TCP retransmits them, so they arrive late if
//     the connection survives. A timeout would break every connection at the end of a partition.
//   - reset_peer ends every connection of the link at its next bytes. Here a draw for each frame or call
//     decides whether its connection breaks; others survive. A connection ends with EOF here and with a reset
//     under reset_peer; clients of both servers treat either as a lost connection.
//   - None of them knows where a message begins; losing, delaying or duplicating messages requires
//     AMQP.
//   - Removing one can take minutes: it waits five seconds for each held piece of a connection whose other
//     end is gone, and new connections wait for it. A gate is never removed.
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

// Direction is the direction in which bytes travel, seen from the process.
type Direction string

// The directions, as toxiproxy calls them.
const (
	// Out is from the process to the server.
	Out Direction = "upstream"
	// In is from the server to the process.
	In Direction = "downstream"
)

// Link is the network path between one process and one server.
type Link struct {
	// Address is the address at which the process reaches the server.
	Address string

	proxy *toxiproxy.Proxy
	out   *gate
	in    *gate

	mu   sync.Mutex
	down int
}

// Proxies holds all links of a cluster.
type Proxies struct {
	server *toxiproxy.ApiServer
	links  []*Link
}

// New returns an empty set of links.
func New() *Proxies {
	return &Proxies{server: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())}
}

// Link creates a link to a server at HOST:PORT, for processes on this machine.
func (p *Proxies) Link(name, server string) (*Link, error) {
	return p.LinkOn("127.0.0.1", name, server)
}

// LinkOn creates a link that listens on one of this machine's addresses.
func (p *Proxies) LinkOn(ip, name, server string) (*Link, error) {
	l := &Link{proxy: toxiproxy.NewProxy(p.server, name, net.JoinHostPort(ip, "0"), server)}
	if err := l.proxy.Start(); err != nil {
		return nil, fmt.Errorf("starting the proxy %s to %s: %w", name, server, err)
	}
	l.Address = l.proxy.Listen
	p.links = append(p.links, l)
	var err error
	if l.out, err = l.addGate(Out); err == nil {
		l.in, err = l.addGate(In)
	}
	return l, err
}

// Close closes every link and its connections.
func (p *Proxies) Close() {
	for _, l := range p.links {
		l.proxy.Stop()
		for _, g := range []*gate{l.out, l.in} {
			if g != nil {
				g.endAllEffects()
			}
		}
	}
}

// addGate adds a gate to one direction of the link.
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

// Effect changes the traffic of one direction of a link.
type Effect struct {
	// Touch is called whenever the effect changes traffic; may be nil.
	Touch func()
	// Hold holds back all bytes until the effect ends. Then they arrive late, if the connection still exists,
	// as with TCP in a cut network, which retransmits segments.
	Hold bool
	// Silence loses all bytes on the connections that exist when the effect begins, as if the machine at the
	// other end had died and another machine had taken over its address. These connections stay open until
	// the effect ends, and then break. New connections work.
	Silence bool
	// Delay draws the extra delay of the next bytes; nil for no delay.
	Delay func() time.Duration
	// Break draws whether the connection breaks at the next bytes, which are then lost; nil for no break.
	Break func() bool
	// Each draws how long the next bytes occupy the link, during which later bytes wait; nil for no time.
	Each func() time.Duration

	// last is the number of the last connection that existed when the effect began.
	last int
}

// Begin begins an effect. The returned function ends it.
func (l *Link) Begin(way Direction, e Effect) (end func()) { return l.gateFor(way).beginEffect(&e) }

// Rewrite rewrites one direction of every new connection.
func (l *Link) Rewrite(way Direction, rewriter func() Rewriter) {
	l.gateFor(way).rewriter.Store(&rewriter)
}

// Down closes the link and its connections, as if the server were down. It takes as many calls of Up to
// reopen the link.
func (l *Link) Down() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down++; l.down == 1 {
		l.proxy.Stop()
	}
}

// Up reverses one call of Down.
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

func (l *Link) gateFor(way Direction) *gate {
	if way == In {
		return l.in
	}
	return l.out
}
