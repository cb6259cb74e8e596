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

// Ports come from below the range that the kernel takes outgoing connections' ports from (32768 on
// Linux, 49152 elsewhere): a stopped server must find its port free again.
const (
	firstPort = 20000
	lastPort  = 31999
)

// mostGiven is how many ports this process keeps from being chosen again: more than all its sandboxes use at a time.
const mostGiven = 1000

// given are the ports that were chosen last. Between the choice of a port and the start of what listens there lie
// seconds, in which another sandbox, or another harness on this machine, would find it free.
var given struct {
	sync.Mutex
	ports []int
}

// pickPorts is freePorts except in tests.
var pickPorts = freePorts

// freePorts returns that many different ports that nobody listens on at this moment, and that nobody else who asks here,
// or in another process of the same user, has got lately.
func freePorts(n int) ([]int, error) {
	given.Lock()
	defer given.Unlock()
	var out []int
	var last error
	// All are held until the last is chosen, so that they differ.
	var held []net.Listener
	defer func() {
		for _, l := range held {
			_ = l.Close() // nothing was accepted
		}
	}()
	for range 400 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if slices.Contains(given.ports, port) || !claim(port) {
			continue
		}
		l, err := net.Listen("tcp", loopback(port))
		if err != nil {
			release(port)
			last = err
			continue
		}
		held = append(held, l)
		given.ports = append(given.ports, port)
		if out = append(out, port); len(out) < n {
			continue
		}
		for ; len(given.ports) > mostGiven; given.ports = given.ports[1:] {
			release(given.ports[0])
		}
		return out, nil
	}
	return nil, errors.Join(fmt.Errorf("no free ports between %d and %d", firstPort, lastPort), last)
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// portTaken reports whether a server's log, or an engine, says that somebody else got its port first.
func portTaken(log string) bool {
	log = strings.ToLower(log)
	return strings.Contains(log, "eaddrinuse") || strings.Contains(log, "address already in use") ||
		strings.Contains(log, "port is already allocated") // Docker's words
}

// isLoopback reports whether a host is this machine and nothing else. A name must resolve, and to
// loopback addresses only. An absolute path is a Unix socket.
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
