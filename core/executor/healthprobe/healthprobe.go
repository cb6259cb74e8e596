// Package healthprobe probes workers' health endpoints over HTTP. It is the Prober of a real executor.
package healthprobe

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"handoff/core/executor"
)

// Prober sends a GET request and accepts only status 200. It does not follow redirects, because a health
// endpoint has none. It keeps no connections open, because a probe must test whether a new one can be made.
type Prober struct {
	client   *http.Client
	loopback string
}

// New returns a prober on the given loopback network (host/daemon.LoopbackName). Only a probe's context
// limits its duration.
func New(loopback string) *Prober {
	return &Prober{loopback: loopback, client: &http.Client{
		Transport: &http.Transport{
			DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: 16 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Probe implements executor.Prober.
func (p *Prober) Probe(ctx context.Context, url string) error {
	if isElsewhere(url, p.loopback) {
		return executor.ErrElsewhere
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("probing %s: %w", url, err)
	}
	response, err := p.client.Do(request)
	if err != nil {
		return fmt.Errorf("probing: %w", err)
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, 4<<10)
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("probing %s: answered %s", url, response.Status)
	}
	return nil
}
