package compose

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2/client"

	"handoff/chaos/netproxy"
)

// A run's proxies use the ports after firstProxyPort in toxiproxy's container: above the compose file's ports
// and below the kernel's range for outgoing connections.
const firstProxyPort = 20000

// Link is the path between one process and one server, through a proxy of toxiproxy's container. The proxy's
// name is PROCESS.SERVER, as in the compose file.
//
// Toxiproxy's random draws can't be reproduced, so it must make none: every toxic has the toxicity 1 and no
// jitter, and random values are drawn once for each direction and fault.
type Link struct {
	// Address is the server's address for the process, HOST:PORT.
	Address string

	name    string
	traffic Traffic
	fail    func(error)
	// before is the proxy's target in the compose file; empty if the file has no such proxy.
	before string

	mu    sync.Mutex
	proxy *toxiproxy.Proxy
	count int
	down  int
}

// Traffic describes the regular traffic on a link, from which the stack infers whether a fault has affected
// any: toxiproxy counts a connection's bytes only when the connection ends.
type Traffic struct {
	// Every is the longest silence on the link: the longest period of any heartbeat.
	Every time.Duration
	// Kept reports whether the process always keeps a connection open.
	Kept bool
	// Alive reports whether the process is running, and so sends traffic.
	Alive func() bool
}

// touchOnTraffic calls touch once an effect that begins now must have met traffic, unless stop is called
// first.
func (t Traffic) touchOnTraffic(touch func()) (stop func()) {
	over := make(chan struct{})
	go func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(t.Every):
			}
			if t.Alive() {
				touch()
				return
			}
		}
	}()
	return func() { close(over) }
}

// Link makes a process's link to a server whose address inside the project is upstream, HOST:PORT. It passes
// the link's later errors to fail.
func (s *Stack) Link(process, server, upstream string, t Traffic, fail func(error)) (*Link, error) {
	l := &Link{name: process + "." + server, traffic: t, fail: fail}
	all, err := s.proxy.Proxies()
	if err != nil {
		return nil, fmt.Errorf("listing toxiproxy's proxies: %w", err)
	}
	proxy := all[l.name]
	if proxy != nil {
		l.before, proxy.Upstream = proxy.Upstream, upstream
		err = proxy.Save()
	} else {
		s.mu.Lock()
		s.ports++
		listen := fmt.Sprintf("0.0.0.0:%d", s.ports)
		s.mu.Unlock()
		proxy, err = s.proxy.CreateProxy(l.name, listen, upstream)
	}
	if err != nil {
		return nil, fmt.Errorf("making the proxy %s to %s: %w", l.name, upstream, err)
	}
	l.proxy = proxy
	l.Address = serviceToxiproxy + proxy.Listen[strings.LastIndex(proxy.Listen, ":"):]
	return l, nil
}

// Close removes the link's proxy, or restores its state in the compose file.
func (l *Link) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.before == "" {
		return l.proxy.Delete()
	}
	toxics, err := l.proxy.Toxics()
	for i := range toxics {
		err = errors.Join(err, l.proxy.RemoveToxic(toxics[i].Name))
	}
	l.proxy.Upstream = l.before
	return errors.Join(err, l.proxy.Enable())
}

// Begin begins an effect; end ends it.
func (l *Link) Begin(way netproxy.Direction, e netproxy.Effect) (end func()) {
	if e.Break != nil {
		return l.breakOff(e)
	}
	kind, attributes := toxicFor(e)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	name := fmt.Sprintf("chaos-%d", l.count)
	if _, err := l.proxy.AddToxic(name, kind, string(way), 1, attributes); err != nil {
		l.fail(fmt.Errorf("the link %s: %w", l.name, err))
		return func() {}
	}
	stop := l.traffic.touchOnTraffic(e.Touch)
	return func() {
		stop()
		l.mu.Lock()
		err := l.proxy.RemoveToxic(name)
		l.mu.Unlock()
		switch {
		case err != nil:
			l.fail(fmt.Errorf("the link %s: %w", l.name, err))
		case e.Hold && l.traffic.Kept && l.traffic.Alive():
			e.Touch() // its connections were closed just now
		}
	}
}

// toxicFor returns toxiproxy's toxic for an effect. A timeout of 0 blocks all data. Its removal closes the
// connections, because bytes were lost. A slicer with pieces too large to cut only waits after each piece.
func toxicFor(e netproxy.Effect) (kind string, attributes toxiproxy.Attributes) {
	switch {
	case e.Delay != nil:
		return "latency", toxiproxy.Attributes{"latency": e.Delay().Milliseconds(), "jitter": 0}
	case e.Each != nil:
		return "slicer", toxiproxy.Attributes{"average_size": 1 << 30, "size_variation": 0, "delay": e.Each().Microseconds()}
	default:
		return "timeout", toxiproxy.Attributes{"timeout": 0}
	}
}

// Every breakEvery, a Break effect gets one chance to break the link's connections.
const breakEvery = 50 * time.Millisecond

// breakOff breaks the link's connections whenever e.Break returns true, until end is called.
func (l *Link) breakOff(e netproxy.Effect) (end func()) {
	over := make(chan struct{})
	var drawing sync.WaitGroup
	drawing.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(breakEvery):
			}
			if !e.Break() {
				continue
			}
			if l.traffic.Alive() {
				e.Touch()
			}
			l.Down()
			if err := l.Up(); err != nil {
				l.fail(err)
			}
		}
	})
	return func() {
		close(over)
		drawing.Wait()
	}
}

// Down closes the link and its connections, as if the server were down. Each call must be reversed by a call
// of Up before the link reopens.
func (l *Link) Down() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down++; l.down > 1 {
		return
	}
	if err := l.proxy.Disable(); err != nil {
		l.fail(fmt.Errorf("closing the link %s: %w", l.name, err))
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
	if err := l.proxy.Enable(); err != nil {
		return fmt.Errorf("opening the link %s: %w", l.name, err)
	}
	return nil
}
