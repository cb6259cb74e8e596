package config

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// checkAccess refuses contradictory settings of access to the API.
func (v *validation) checkAccess(d Deployment) {
	if hasUnsendableCharacter(d.API.Token) {
		v.addProblem("api.token", "has a character that an HTTP header can't carry; use letters, digits and punctuation, without spaces")
	}
	for _, t := range d.API.Tokens {
		if t.Name == DefaultToken {
			v.addProblem("api.tokens", "has an entry that is called %q, which is the name of the token in api.token; take another name", DefaultToken)
		}
		if t.sharesToken(Token{Token: d.API.Token}) {
			v.addProblem("api.tokens", "has the token of api.token in the entry %q; leave one of them out", t.Name)
		}
	}
	for _, host := range d.API.AllowedHosts {
		if !isHost(host) {
			v.addProblem("api.allowed_hosts", "%q is not the name or address of a host; write it without scheme and port, such as handoff.example.com", host)
		}
	}
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?$`)

func isHost(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil || hostName.MatchString(text)
}

// ValidateServing returns the problems that keep an executor from serving its API. Validate omits them:
// workers read the same file but serve no API, so such problems must not stop them.
func (d Deployment) ValidateServing() []Problem {
	v := validation{}
	if d.Exposed() {
		v.addProblem("api.listen", "is %s, which other machines can reach, and requests need no token: whoever sends one could run commands on the workers. "+
			"Listen on 127.0.0.1 (api.listen: 127.0.0.1:8080), or set a token (api.token or api.tokens), or say api.insecure: true if the network keeps everybody else away", d.API.Listen)
	}
	tls := d.API.TLS
	switch {
	case tls.CertFile != "" && tls.KeyFile == "":
		v.addProblem("api.tls.cert_file", "is set and api.tls.key_file is not; TLS needs both")
	case tls.CertFile == "" && tls.KeyFile != "":
		v.addProblem("api.tls.key_file", "is set and api.tls.cert_file is not; TLS needs both")
	}
	return v.problems
}

// Exposed reports whether the API would answer requests from other machines without a token although the
// configuration does not allow this.
func (d Deployment) Exposed() bool {
	_, _, err := net.SplitHostPort(d.API.Listen)
	return err == nil && !Loopback(d.API.Listen) && len(d.Tokens()) == 0 && !d.API.Insecure
}

// Loopback reports whether an address is reachable only from this machine. The only name that it accepts is
// localhost, because a resolver decides what other names mean. An empty host, 0.0.0.0 and :: stand for every
// address of the machine.
func Loopback(listen string) bool {
	name, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.Unmap().IsLoopback() || strings.EqualFold(name, "localhost")
}

// showNames formats a list of names as YAML.
func showNames(list []string, quoted bool) string {
	list = slices.Clone(list)
	for i := range list {
		if quoted {
			list[i] = fmt.Sprintf("%q", list[i])
		}
	}
	return "[" + strings.Join(list, ", ") + "]"
}
