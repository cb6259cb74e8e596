package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// MQ is a virtual host on a node. On a given node without a management API it is a prefix for names
// instead.
type MQ struct {
	URL    string
	Vhost  string // empty if Prefix is set
	Prefix string // must begin every name; normally empty
	Server *RabbitMQ
}

// pool is the number of virtual hosts that one call of rabbitmqctl creates. The call costs 0.4 s,
// each virtual host about 0.03 s.
const pool = 10

// CreateVhost creates an empty virtual host with a unique name, in which the URL's user has all
// permissions. On a private node every tenth call takes 0.7 s and the others no time.
func (m *RabbitMQ) CreateVhost(ctx context.Context) (*MQ, error) {
	if !m.Private() && m.api == nil {
		return &MQ{URL: m.admin, Prefix: uniqueName() + ".", Server: m}, nil
	}
	name, err := m.newVhost(ctx)
	if err != nil {
		return nil, err
	}
	address, err := withVhost(m.admin, name)
	if err != nil {
		return nil, err
	}
	return &MQ{URL: address, Vhost: name, Server: m}, nil
}

func (m *RabbitMQ) newVhost(ctx context.Context) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.Private() {
		name := uniqueName()
		return name, m.api.create(ctx, name)
	}
	if len(m.spare) == 0 {
		if err := m.refill(ctx); err != nil {
			return "", err
		}
	}
	name := m.spare[0]
	m.spare = m.spare[1:]
	return name, nil
}

// refill creates new virtual hosts and deletes unused ones, all in one call.
func (m *RabbitMQ) refill(ctx context.Context) error {
	var names []string
	var b strings.Builder
	for range pool {
		name := uniqueName()
		names = append(names, name)
		fmt.Fprintf(&b, "ok = rabbit_vhost:add(<<%q>>, <<\"handoff\">>), ", name)
		fmt.Fprintf(&b, "ok = rabbit_auth_backend_internal:set_permissions(<<%q>>, <<%q>>, <<\".*\">>, <<\".*\">>, <<\".*\">>, <<\"handoff\">>), ", m.user, name)
	}
	for _, name := range m.disposed {
		// A test may have deleted it already.
		fmt.Fprintf(&b, "catch rabbit_vhost:delete(<<%q>>, <<\"handoff\">>), ", name)
	}
	b.WriteString("made.")
	out, err := m.Ctl(ctx, "eval", b.String())
	if err == nil && !strings.Contains(out, "made") {
		err = errors.New("rabbitmqctl eval: " + strings.TrimSpace(out))
	}
	if err != nil {
		return fmt.Errorf("making virtual hosts: %w", err)
	}
	m.spare, m.disposed = names, nil
	return nil
}

// Drop gives the virtual host up. On a given node it is deleted. On a private node it is deleted
// when the next virtual hosts are created, because connections left open in it are harmless there,
// and every deletion would cost 0.4 s. If there is only a prefix, the queues and exchanges stay.
func (q *MQ) Drop(ctx context.Context) error {
	m := q.Server
	if q.Vhost == "" {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.Private() {
		return m.api.delete(ctx, q.Vhost)
	}
	if !slices.Contains(m.disposed, q.Vhost) {
		m.disposed = append(m.disposed, q.Vhost)
	}
	return nil
}

// managementAPI is the needed part of the management plugin's HTTP interface.
type managementAPI struct {
	base, user, password string
}

func (a *managementAPI) create(ctx context.Context, vhost string) error {
	if err := a.call(ctx, http.MethodPut, "/api/vhosts/"+url.PathEscape(vhost), "{}"); err != nil {
		return err
	}
	return a.call(ctx, http.MethodPut, "/api/permissions/"+url.PathEscape(vhost)+"/"+url.PathEscape(a.user),
		`{"configure":".*","write":".*","read":".*"}`)
}

func (a *managementAPI) delete(ctx context.Context, vhost string) error {
	return a.call(ctx, http.MethodDelete, "/api/vhosts/"+url.PathEscape(vhost), "")
}

func (a *managementAPI) call(ctx context.Context, method, path, body string) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, bytes.NewBufferString(body))
	if err != nil {
		return err
	}
	req.SetBasicAuth(a.user, a.password)
	req.Header.Set("Content-Type", "application/json")
	// A separate client: no proxy from the environment, no connection left open.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000)) // for the error only
	_ = resp.Body.Close()
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, strings.TrimSpace(string(text)))
	}
	return nil
}
