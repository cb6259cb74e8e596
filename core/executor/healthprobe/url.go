package healthprobe

import (
	"net"
	"net/url"
	"strings"
)

// local begins the fragment of a URL that answers only on the loopback network which it names. A fragment is never sent.
const local = "loopback-"

// URL is where executors ask the health endpoint that listens on an address: /readyz, because a process that is up
// may have lost its lease or its consumer. One that listens everywhere is found by the machine's name. One that listens on
// a loopback address carries the name of its loopback network (host/daemon.LoopbackName), so that executors elsewhere
// leave it alone instead of asking whoever listens on that port of their own machine.
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

// elsewhere says that a URL names another loopback network than this one.
func elsewhere(at, loopback string) bool {
	u, err := url.Parse(at)
	return err == nil && strings.HasPrefix(u.Fragment, local) && u.Fragment != local+loopback
}
