package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"handoff/chaos/servers/containers"
)

func TestRemoteAddressesAreRefused(t *testing.T) {
	ctx := within(t)
	for _, c := range []struct{ variable, address, host string }{
		{AddressPostgres, "postgres://u:secret@192.0.2.7:5432/x", "192.0.2.7"},
		{AddressPostgres, "postgres://u:secret@127.0.0.1/x?host=192.0.2.8", "192.0.2.8"},
		{AddressPostgres, "postgres://u:secret@localhost,192.0.2.9/x", "192.0.2.9"},
		{AddressPostgres, "postgres://u:secret@0.0.0.0/x", "0.0.0.0"},
		{AddressRabbitMQ, "amqp://u:secret@192.0.2.7:5672/", "192.0.2.7"},
		{AddressRabbitMQ, "amqp://u:secret@does-not-exist.invalid/", "does-not-exist.invalid"},
	} {
		t.Run(c.address, func(t *testing.T) {
			t.Setenv(AddressPostgres, "")
			t.Setenv(AddressRabbitMQ, "")
			t.Setenv(c.variable, c.address)
			_, err := Up(ctx, Options{Postgres: c.variable == AddressPostgres, RabbitMQ: c.variable == AddressRabbitMQ})
			var remote *RemoteError
			if !errors.As(err, &remote) || remote.Host != c.host || remote.Variable != c.variable {
				t.Fatalf("got %v", err)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the password is in %q", err)
			}
		})
	}
	t.Setenv(AddressRabbitMQ, "amqp://127.0.0.1:1/")
	t.Setenv(AddressManagement, "http://192.0.2.7:15672")
	var remote *RemoteError
	if _, err := Up(ctx, Options{RabbitMQ: true}); !errors.As(err, &remote) || remote.Variable != AddressManagement {
		t.Errorf("a remote management API: %v", err)
	}
}

func TestLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "localhost": true, "/var/run/postgresql": true,
		"10.0.0.1": false, "0.0.0.0": false, "::": false, "": false, "127.0.0.1.invalid": false,
	} {
		if got := isLoopback(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}

func TestUnusableAddresses(t *testing.T) {
	for variable, addresses := range map[string][]string{
		AddressPostgres: {"host=127.0.0.1 password=secret", "http://secret@127.0.0.1", "postgres:///x", "postgres://u:secret@127.0.0.1:port/x"},
		AddressRabbitMQ: {"127.0.0.1:5672", "http://u:secret@127.0.0.1"},
	} {
		for _, a := range addresses {
			t.Setenv(variable, a)
			_, err := Up(t.Context(), Options{Postgres: variable == AddressPostgres, RabbitMQ: variable == AddressRabbitMQ})
			var bad *AddressError
			if !errors.As(err, &bad) || bad.Variable != variable || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: %v", a, err)
			}
		}
	}
}

// A given server that does not answer is an environment error, not a reason to start a private server silently.
func TestUnresponsiveGivenServer(t *testing.T) {
	t.Setenv(AddressPostgres, "postgres://u:secret@127.0.0.1:1/x")
	t.Setenv(AddressRabbitMQ, "amqp://u:secret@127.0.0.1:1/")
	_, err := Up(within(t), Options{Postgres: true, RabbitMQ: true})
	if !errors.Is(err, ErrEnvironment) || strings.Contains(err.Error(), "secret") {
		t.Fatalf("got %v", err)
	}
	for _, variable := range []string{AddressPostgres, AddressRabbitMQ} {
		if !strings.Contains(err.Error(), variable) {
			t.Errorf("%s is not named in %v", variable, err)
		}
	}
}

// noImages unsets the image variables, for tests of installed servers.
func noImages(t *testing.T) {
	t.Helper()
	t.Setenv(ImagePostgres, "")
	t.Setenv(ImageRabbitMQ, "")
}

func nowhere(t *testing.T) *places {
	dir := t.TempDir()
	return &places{
		postgres: []string{dir + "/pg/*/bin"}, rabbit: []string{dir + "/mq"}, erlang: []string{dir + "/erl"},
		engine: func(context.Context) (*containers.Engine, error) { return nil, errors.New("no engine answers") },
	}
}

func TestNothingInstalled(t *testing.T) {
	noImages(t)
	t.Setenv(AddressPostgres, "")
	t.Setenv(AddressRabbitMQ, "")
	t.Setenv(Without, "")
	where := nowhere(t)
	_, err := Up(t.Context(), Options{Postgres: true, RabbitMQ: true, places: where})
	var unavailable *UnavailableError
	if !errors.As(err, &unavailable) || !errors.Is(err, ErrEnvironment) || unavailable.OnlyWithout() || len(unavailable.Missing) != 2 {
		t.Fatalf("got %v", err)
	}
	for _, part := range []string{
		"PostgreSQL not found", AddressPostgres, where.postgres[0], "PATH (empty)",
		"RabbitMQ not found", AddressRabbitMQ, where.rabbit[0],
		"a container engine, for the image " + componentNamed(ComponentPostgres).usualImage + " (no engine answers)", componentNamed(ComponentRabbitMQ).usualImage,
		"apt-get install -y postgresql rabbitmq-server", "start a container engine",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in:\n%v", part, err)
		}
	}
}

func TestWithout(t *testing.T) {
	noImages(t)
	t.Setenv(Without, "docker, Postgres")
	_, err := Up(t.Context(), Options{Postgres: true, places: usualPlaces()})
	var unavailable *UnavailableError
	if !errors.As(err, &unavailable) || !unavailable.OnlyWithout() || !strings.Contains(err.Error(), "not offered by this machine") ||
		strings.Contains(err.Error(), "apt-get") {
		t.Errorf("got %v", err)
	}
	if _, err = Up(t.Context(), Options{Postgres: true, RabbitMQ: true, places: nowhere(t)}); !errors.As(err, &unavailable) || unavailable.OnlyWithout() {
		t.Errorf("a missing RabbitMQ hides behind the declared PostgreSQL: %v", err)
	}
	t.Setenv(Without, "postgress")
	var bad *AddressError
	if _, err := Up(t.Context(), Options{Postgres: true}); !errors.As(err, &bad) {
		t.Errorf("a misspelt name: %v", err)
	}
}

// verdict is a TB that records how Require ends a test.
type verdict struct {
	TB
	how string
}

func (v *verdict) Helper()                      {}
func (v *verdict) Fatalf(f string, args ...any) { v.how = "fail: " + fmt.Sprintf(f, args...) }
func (v *verdict) Skipf(f string, args ...any)  { v.how = "skip: " + fmt.Sprintf(f, args...) }

func TestSkipOrFail(t *testing.T) {
	notFound := &UnavailableError{Missing: []Missing{{Component: ComponentRabbitMQ, Looked: []string{"here"}}}}
	declared := &UnavailableError{Missing: []Missing{{Component: ComponentRabbitMQ, Without: true}}}
	broken := &StartError{Component: "RabbitMQ", Err: errEnded}
	for _, c := range []struct {
		ci   string
		err  error
		want string
	}{
		{"", notFound, "skip: not run: RabbitMQ not found"},
		{"true", notFound, "fail: RabbitMQ not found"},
		{"", declared, "skip: not run: RabbitMQ is not offered"},
		{"true", declared, "skip: not run: RabbitMQ is not offered"},
		{"", broken, "fail: RabbitMQ did not come up"},
		{"true", nil, ""},
	} {
		t.Setenv("CI", c.ci)
		v := &verdict{}
		Require(v, c.err)
		if !strings.HasPrefix(v.how, c.want) || (c.want == "") != (v.how == "") {
			t.Errorf("CI=%s, %v: %q, want %q", c.ci, c.err, v.how, c.want)
		}
	}
}

func TestNewestVersionFirst(t *testing.T) {
	base := t.TempDir()
	for _, version := range []string{"9.6", "13", "15"} {
		dir := filepath.Join(base, version, "bin")
		check(t, os.MkdirAll(dir, 0o755))
		for _, name := range []string{"initdb", "postgres"} {
			if version == "15" && name == "initdb" {
				continue // a client-only installation does not count
			}
			check(t, os.WriteFile(filepath.Join(dir, name), nil, 0o755))
		}
	}
	b, _ := (&places{postgres: []string{base + "/*/bin"}}).findPostgres()
	if b == nil || b.postgres != filepath.Join(base, "13", "bin", "postgres") {
		t.Errorf("chose %+v", b)
	}
	path := &places{path: "relative:" + filepath.Join(base, "9.6", "bin")}
	if b, _ = path.findPostgres(); b == nil || b.postgres != filepath.Join(base, "9.6", "bin", "postgres") {
		t.Errorf("chose %+v from PATH", b)
	}
}

func TestInstallRespectsOptOut(t *testing.T) {
	noImages(t)
	t.Setenv(Without, "postgres,rabbitmq")
	t.Setenv("PATH", "") // apt-get can't be found
	if err := EnsureInstalled(t.Context(), nil); err != nil {
		t.Errorf("nothing is wanted, yet: %v", err)
	}
	t.Setenv(Without, "")
	packages, missing, err := missingPackages(nowhere(t))
	if err != nil || len(packages) != 2 || len(missing) != 2 {
		t.Errorf("%q, %v, %v", packages, missing, err)
	}
	t.Setenv(AddressPostgres, "postgres://127.0.0.1/x")
	if packages, _, _ = missingPackages(nowhere(t)); len(packages) != 1 || packages[0] != "rabbitmq-server" {
		t.Errorf("with an address given: %q", packages)
	}
}
