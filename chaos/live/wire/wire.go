// Package wire is the network of a live cluster: every connection between a process and a server goes
// through a proxy of its own, so that any single link can be cut, slowed down or broken off.
//
// The proxies are toxiproxy's, in this process, each with one toxic of ours a way. Toxiproxy's own toxics
// are not used here: their random numbers can't be seeded, and one that is taken away while its other end
// is gone blocks for ever. Whatever is to be drawn is drawn by the caller.
package wire

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

// Wire is all links of a cluster.
type Wire struct {
	server *toxiproxy.ApiServer
	links  []*Link
}

// New returns a network without links.
func New() *Wire {
	return &Wire{server: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())}
}

// Link makes a link to a server's address, HOST:PORT, for processes of this machine.
func (w *Wire) Link(name, server string) (*Link, error) { return w.LinkOn("127.0.0.1", name, server) }

// LinkOn makes a link that listens on one of this machine's addresses.
func (w *Wire) LinkOn(ip, name, server string) (*Link, error) {
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
func (w *Wire) Close() {
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
	// Swallow drops everything. When it ends the connections that lost bytes are closed.
	Swallow bool
	// Delay draws how much later the next bytes arrive; nil for no delay.
	Delay func() time.Duration
	// Break draws whether the connection breaks off over the next bytes, which are lost; nil for never.
	Break func() bool
	// Each draws how long the link is busy with the next bytes, one after the other; nil for no time.
	Each func() time.Duration
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
