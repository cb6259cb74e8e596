package healthprobe

import (
	"net"
	"net/url"
	"strings"
)

// local is the prefix of the fragment that marks a URL as reachable only on the loopback network that it
// names. Fragments are never sent.
const local = "loopback-"

// URL returns the URL at which executors probe the health endpoint that listens on an address. It ends in
// /readyz, because a worker that is up may have lost its lease or its consumer. If the endpoint listens on
// all addresses, the host is the machine's name. If it listens on a loopback address, the URL names its
// loopback network (host/daemon.LoopbackName), so that executors on other machines don't probe their own
// machine's port.
func URL(address, machine, loopback string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	ip := net.ParseIP(host)
	if ip != nil && ip.IsUnspecified() {
		host = machine
	}
	at := "http://" + net.JoinHostPort(host, port) + "/readyz"
	if host == "localhost" || ip != nil && ip.IsLoopback() {
		at += "#" + local + loopback
	}
	return at
}

// isElsewhere reports whether a URL names a loopback network other than this one.
func isElsewhere(at, loopback string) bool {
	u, err := url.Parse(at)
	return err == nil && strings.HasPrefix(u.Fragment, local) && u.Fragment != local+loopback
}
