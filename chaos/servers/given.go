package servers

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"
)

// checkPostgresAddress refuses an address without a host or with a host on another machine. It parses the URL
// as pgx does, including parameters and PG* variables.
func checkPostgresAddress(address string) error {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return &AddressError{AddressPostgres, "not a postgres://user@host:port/database URL"}
	}
	if u.Host == "" && u.Query().Get("host") == "" {
		return &AddressError{AddressPostgres, "names no host; PGHOST is not consulted"}
	}
	cfg, err := pgx.ParseConfig(address)
	if err != nil {
		return &AddressError{AddressPostgres, "not a usable PostgreSQL URL"} // err may quote the address
	}
	hosts := []string{cfg.Host}
	for _, f := range cfg.Fallbacks {
		hosts = append(hosts, f.Host)
	}
	for _, host := range hosts {
		if !isLoopback(host) {
			return &RemoteError{AddressPostgres, host}
		}
	}
	return nil
}

// checkRabbitAddress is checkPostgresAddress for a RabbitMQ node and its management API.
func checkRabbitAddress(address string) error {
	uri, err := amqp.ParseURI(address)
	if err != nil {
		return &AddressError{AddressRabbitMQ, "not an amqp://user:password@host:port URL"} // err may quote the address
	}
	if !isLoopback(uri.Host) {
		return &RemoteError{AddressRabbitMQ, uri.Host}
	}
	management := os.Getenv(AddressManagement)
	if management == "" {
		return nil
	}
	u, err := url.Parse(management)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return &AddressError{AddressManagement, "not an http://host:port URL"}
	}
	if !isLoopback(u.Hostname()) {
		return &RemoteError{AddressManagement, u.Hostname()}
	}
	return nil
}

// givenPostgres creates a database on the server at a given address.
func givenPostgres(ctx context.Context, address string, log *lineLog) (*Postgres, error) {
	p := &Postgres{admin: address}
	if err := p.openEmpty(ctx); err != nil {
		return nil, &StartError{Component: "PostgreSQL at the address in " + AddressPostgres, Err: err}
	}
	log.printf("PostgreSQL: at the address in %s, in its own database %s", AddressPostgres, p.database)
	return p, nil
}

// withDatabase returns the URL with another database.
func withDatabase(address, name string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", &AddressError{AddressPostgres, "not a URL"}
	}
	u.Path, u.RawPath = "/"+name, ""
	q := u.Query()
	q.Del("dbname")
	q.Del("database")
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// withVhost returns the URL with another virtual host.
func withVhost(address, vhost string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", &AddressError{AddressRabbitMQ, "not a URL"}
	}
	u.Path, u.RawPath = "/"+vhost, "/"+url.PathEscape(vhost)
	return u.String(), nil
}

// givenRabbit connects to the node at a given address and creates a virtual host through the management API.
// If the API does not answer, a prefix distinguishes names instead, because AMQP can't create virtual hosts.
func givenRabbit(ctx context.Context, address, management string, log *lineLog) (*RabbitMQ, error) {
	m := &RabbitMQ{admin: address}
	fail := func(err error) (*RabbitMQ, error) {
		return nil, &StartError{Component: "RabbitMQ at the address in " + AddressRabbitMQ, Err: err}
	}
	if err := probeAMQP(ctx, address, ""); err != nil {
		return fail(err)
	}
	uri, err := amqp.ParseURI(address)
	if err != nil {
		return fail(err)
	}
	explicit := management != ""
	if !explicit {
		management = "http://" + net.JoinHostPort(uri.Host, "15672")
	}
	m.api = &managementAPI{base: strings.TrimRight(management, "/"), user: uri.Username, password: uri.Password}
	switch err = m.openEmpty(ctx); {
	case err == nil:
		m.Management = m.api.base
		log.printf("RabbitMQ: at the address in %s, in its own virtual host %s", AddressRabbitMQ, m.own.Vhost)
		return m, nil
	case explicit:
		return fail(fmt.Errorf("the management API in %s: %w", AddressManagement, err))
	}
	m.api = nil
	if err = m.openEmpty(ctx); err != nil {
		return fail(err)
	}
	log.printf("RabbitMQ: at the address in %s; no management API at %s (set %s), so no virtual host of its own: names begin with %s",
		AddressRabbitMQ, management, AddressManagement, m.Prefix)
	return m, nil
}
