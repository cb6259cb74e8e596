package servers

import (
	"errors"
	"fmt"
	"strings"

	"handoff/core/host/without"
)

// The names of the components in HANDOFF_WITHOUT.
const (
	ComponentPostgres = without.Postgres
	ComponentRabbitMQ = without.RabbitMQ
)

// ErrEnvironment matches every error of the environment: no servers are installed, or a server does not
// start. A command that fails with it exits with code 4.
var ErrEnvironment = errors.New("the environment did not come up")

// ErrNotOurs means that a server can't be stopped, paused or killed, because this process did not start it.
var ErrNotOurs = errors.New("this process did not start the server, which was given by its address, so it must not stop it")

var errNoPrivate = errors.New("private instances need Unix process control; on this system give addresses in " +
	AddressPostgres + " and " + AddressRabbitMQ)

const installHint = "apt-get install -y postgresql rabbitmq-server"

// Missing is a component that was not found, with the places that were searched.
type Missing struct {
	Component   string
	Looked      []string
	Without     bool // HANDOFF_WITHOUT names it, so there was no search
	PrivateOnly bool // the request ignores addresses
}

// UnavailableError lists every requested component that is unavailable.
type UnavailableError struct {
	Missing []Missing
}

func (u *UnavailableError) Error() string {
	var b strings.Builder
	hint, addresses := false, false
	for i, m := range u.Missing {
		if i > 0 {
			b.WriteString("\n")
		}
		c := componentNamed(m.Component)
		if m.Without {
			fmt.Fprintf(&b, "%s is not offered by this machine: %s names %s", c.display, Without, m.Component)
			continue
		}
		hint = true
		addresses = addresses || !m.PrivateOnly
		fmt.Fprintf(&b, "%s not found. Looked for:", c.display)
		if !m.PrivateOnly {
			fmt.Fprintf(&b, "\n  an address in %s (not set)", c.address)
		}
		for _, l := range m.Looked {
			fmt.Fprintf(&b, "\n  %s", l)
		}
	}
	if hint {
		fmt.Fprintf(&b, "\nInstall them (Debian, Ubuntu: %s), or start a container engine (docker info has to answer)", installHint)
		if addresses {
			fmt.Fprintf(&b, ", or name servers in %s and %s", AddressPostgres, AddressRabbitMQ)
		}
	}
	return b.String()
}

// Is makes the error match ErrEnvironment.
func (u *UnavailableError) Is(target error) bool { return target == ErrEnvironment }

// OnlyWithout reports whether HANDOFF_WITHOUT excludes every missing component: none was searched for in
// vain.
func (u *UnavailableError) OnlyWithout() bool {
	for _, m := range u.Missing {
		if !m.Without {
			return false
		}
	}
	return true
}

// StartError reports a component that was found but did not start. It has the end of the log, because the log
// itself is removed.
type StartError struct {
	Component string
	Err       error
	LogTail   string
}

func (se *StartError) Error() string {
	s := fmt.Sprintf("%s did not come up: %v", se.Component, se.Err)
	if se.LogTail != "" {
		s += "\nIts log ends with:\n  " + strings.ReplaceAll(strings.TrimRight(se.LogTail, "\n"), "\n", "\n  ")
	}
	return s
}

func (se *StartError) Unwrap() error { return se.Err }

// Is makes the error match ErrEnvironment.
func (se *StartError) Is(target error) bool { return target == ErrEnvironment }

// RemoteError refuses the address of a server on another machine, because faults are injected into servers.
type RemoteError struct {
	Variable, Host string
}

func (r *RemoteError) Error() string {
	return fmt.Sprintf("%s points at %s, which is not this machine: refused, since faults are injected there",
		r.Variable, r.Host)
}

// AddressError reports a variable with an unusable address or other value. It never quotes the address, which
// may contain a password.
type AddressError struct {
	Variable, Reason string
}

func (a *AddressError) Error() string { return a.Variable + ": " + a.Reason }
