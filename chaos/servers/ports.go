package servers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Ports are below the kernel's range for outgoing connections (from 32768 on Linux, 49152 elsewhere), so that
// a stopped server's port stays free.
const (
	firstPort = 20000
	lastPort  = 31999
)

// mostRecentPorts is the number of recently chosen ports that this process does not reuse. It is more than
// its sandboxes use at a time.
const mostRecentPorts = 1000

// recentPorts are the most recently chosen ports. Between the choice of a port and the start of its server,
// another sandbox or harness on this machine would find the port free for seconds.
var recentPorts struct {
	sync.Mutex
	ports []int
}

// pickPorts is FreePorts; tests replace it.
var pickPorts = FreePorts

// FreePorts returns n different ports on which no program listens and which no process of the same user has
// chosen recently.
func FreePorts(n int) ([]int, error) {
	recentPorts.Lock()
	defer recentPorts.Unlock()
	var out []int
	var last error
	// Hold all listeners until the last port is chosen, so that the ports differ.
	var held []net.Listener
	defer func() {
		for _, l := range held {
			_ = l.Close() // nothing was accepted
		}
	}()
	for range 400 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if slices.Contains(recentPorts.ports, port) || !claimPort(port) {
			continue
		}
		l, err := net.Listen("tcp", loopbackAddress(port))
		if err != nil {
			releasePort(port)
			last = err
			continue
		}
		held = append(held, l)
		recentPorts.ports = append(recentPorts.ports, port)
		if out = append(out, port); len(out) < n {
			continue
		}
		for ; len(recentPorts.ports) > mostRecentPorts; recentPorts.ports = recentPorts.ports[1:] {
			releasePort(recentPorts.ports[0])
		}
		return out, nil
	}
	return nil, errors.Join(fmt.Errorf("no free ports between %d and %d", firstPort, lastPort), last)
}

// allFree reports whether no program listens on any of the ports now.
func allFree(ports []int) bool {
	for _, port := range ports {
		l, err := net.Listen("tcp", loopbackAddress(port))
		if err != nil {
			return false
		}
		_ = l.Close() // nothing was accepted
	}
	return true
}

func loopbackAddress(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// portTaken reports whether a log or an engine's error shows that a port was already in use.
func portTaken(log string) bool {
	log = strings.ToLower(log)
	return strings.Contains(log, "eaddrinuse") || strings.Contains(log, "address already in use") ||
		strings.Contains(log, "port is already allocated") // Docker's words
}

// isLoopback reports whether a host is this machine. A name must resolve to loopback addresses
// only. An absolute path is a Unix socket.
func isLoopback(host string) bool {
	if strings.HasPrefix(host, "/") {
		return true
	}
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback()
	}
	ips, err := net.LookupIP(host)
	if err != nil || len(ips) == 0 {
		return false
	}
	for _, ip := range ips {
		if !ip.IsLoopback() {
			return false
		}
	}
	return true
}
