// Package hostguard protects HTTP servers without authentication from pages of other sites.
//
// A browser on this machine can reach a server that listens on 127.0.0.1. A page of another site can reach it
// in two ways. It can send a cross-origin request, which browsers mark in Origin and Sec-Fetch-Site. Or the
// page's host name is changed to resolve to 127.0.0.1 after the page was loaded (DNS rebinding). Then Origin
// and Host agree, and only Host shows that this server did not serve the page. So a server without a token
// answers only requests whose Host is one of its own names.
package hostguard

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Guard checks the host that a request names, and the site of the page that sent it. The zero Guard accepts
// only the names of this machine.
type Guard struct {
	// Hosts are additional names and addresses of the server, without ports, such as a proxy's. Localhost,
	// loopback addresses and the local address of the connection are always accepted.
	Hosts []string
	// More is appended to a refusal and explains how to make the server accept another name. It may be empty.
	More string
}

// Refusal is the reason why a request is not answered.
type Refusal struct {
	// Foreign is true if Host is not one of the server's names, and false if a page of another site sent the
	// request.
	Foreign bool
	// Detail explains the refusal to the person who sent the request.
	Detail string
}

// Check returns the reason for refusing a request, nil if it is accepted. It does not compare ports
// of Host: a port may be forwarded, and a foreign page can't be served on another port of a known
// name. It ignores X-Forwarded-Host and Forwarded, because a page can set them.
func (g Guard) Check(r *http.Request) *Refusal {
	host := hostOf(r.Host)
	if !g.knowsHost(host, r) {
		return &Refusal{Foreign: true, Detail: g.refusalDetail(r)}
	}
	switch origins := r.Header.Values("Origin"); {
	case len(origins) > 1 || len(origins) == 1 && !sameOrigin(origins[0], r.Host):
		return &Refusal{Detail: fmt.Sprintf("The request was sent by the page %q, and only pages of %q may send any.", shortenText(strings.Join(origins, ", ")), shortenText(r.Host))}
	case len(origins) == 0 && http.NewCrossOriginProtection().Check(r) != nil:
		return &Refusal{Detail: "The request was sent by a page of another site."}
	}
	return nil
}

// Wrap answers refused requests with 403 and a line of text, and passes the others on.
func (g Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refusal := g.Check(r); refusal != nil {
			http.Error(w, refusal.Detail, http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (g Guard) refusalDetail(r *http.Request) string {
	own := append([]string{"localhost", "loopback addresses"}, arrivalAddress(r)...)
	own = append(own, g.Hosts...)
	what := fmt.Sprintf("The request was sent to the host %q", shortenText(r.Host))
	if r.Host == "" {
		what = "The request names no host"
	}
	text := fmt.Sprintf("%s; this server answers to %s.", what, strings.Join(own, ", "))
	if g.More != "" {
		text += " " + g.More
	}
	return text
}

// knowsHost reports whether a host is the server's own.
func (g Guard) knowsHost(host string, r *http.Request) bool {
	if host == "" {
		return false
	}
	if host == "localhost" {
		return true
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip = ip.Unmap(); ip.IsLoopback() {
			return true
		}
		host = ip.String()
	}
	return slices.Contains(arrivalAddress(r), host) || slices.ContainsFunc(g.Hosts, func(own string) bool { return hostOf(own) == host })
}

// arrivalAddress returns the local address of the request's connection, empty if it is unknown.
func arrivalAddress(r *http.Request) []string {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok {
		return nil
	}
	ip, ok := netip.AddrFromSlice(local.IP)
	if !ok {
		return nil
	}
	return []string{ip.Unmap().String()}
}

// hostOf extracts the name or address of HOST or HOST:PORT, normalised for comparison: lower case, an address
// without brackets, a name without a final dot. It returns "" if the text is not a host.
func hostOf(text string) string {
	host := text
	if name, port, err := net.SplitHostPort(text); err == nil {
		if strings.Trim(port, "0123456789") != "" {
			return ""
		}
		host = name
	} else if inner, ok := strings.CutPrefix(text, "["); ok {
		if host, ok = strings.CutSuffix(inner, "]"); !ok {
			return ""
		}
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().String()
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if strings.ContainsFunc(host, func(c rune) bool {
		return c != '-' && c != '.' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z')
	}) {
		return ""
	}
	return host
}

// sameOrigin reports whether an Origin is the site that a Host names, including the port.
func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return false // "null" is the origin of files and of pages in a sandbox
	}
	// Behind a proxy with TLS the scheme differs from the connection's; a missing port is the
	// scheme's default.
	port := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	return hostOf(u.Host) == hostOf(host) && portOf(u.Host, port) == portOf(host, port)
}

func portOf(host, otherwise string) string {
	if _, port, err := net.SplitHostPort(host); err == nil && port != "" {
		return port
	}
	return otherwise
}

func shortenText(text string) string {
	const longest = 100
	if len(text) > longest {
		return text[:longest] + "…"
	}
	return text
}
