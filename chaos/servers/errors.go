package servers

import (
	"errors"
	"fmt"
	"strings"

	"handoff/core/host/without"
)

// The components, as HANDOFF_WITHOUT spells them.
const (
	ComponentPostgres = without.Postgres
	ComponentRabbitMQ = without.RabbitMQ
)

// ErrEnvironment is matched by every error that says the machine could not provide what was asked
// for: nothing installed, a server that does not come up. A command answers it with exit code 4.
var ErrEnvironment = errors.New("the environment did not come up")

// ErrNotOurs is returned by everything that would stop, pause or kill a server which this process
// did not start.
var ErrNotOurs = errors.New("the server was given by its address, not started here: it is not ours to stop")

var errNoPrivate = errors.New("private instances need Unix process control; on this system give addresses in " +
	AddressPostgres + " and " + AddressRabbitMQ)

const installHint = "apt-get install -y postgresql rabbitmq-server"

// Missing is a component that could not be found, and where it was looked for.
type Missing struct {
	Component   string
	Looked      []string
	Without     bool // HANDOFF_WITHOUT names it: nobody looked
	PrivateOnly bool // an address would not have been used
}

// UnavailableError lists every component that was asked for and is not to be had.
type UnavailableError struct {
	Missing []Missing
}

func (e *UnavailableError) Error() string {
	var b strings.Builder
	hint, addresses := false, false
	for i, m := range e.Missing {
		if i > 0 {
			b.WriteString("\n")
		}
		name := displayName(m.Component)
		if m.Without {
			fmt.Fprintf(&b, "%s is not offered by this machine: %s names %s", name, Without, m.Component)
			continue
		}
		hint = true
		addresses = addresses || !m.PrivateOnly
		fmt.Fprintf(&b, "%s not found. Looked for:", name)
		if !m.PrivateOnly {
			fmt.Fprintf(&b, "\n  an address in %s (not set)", addressVariable(m.Component))
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
func (e *UnavailableError) Is(target error) bool { return target == ErrEnvironment }

// OnlyWithout reports whether everything that is missing was declared as not offered, as opposed
// to looked for and not found.
func (e *UnavailableError) OnlyWithout() bool {
	for _, m := range e.Missing {
		if !m.Without {
			return false
		}
	}
	return true
}

// StartError is a component that was found and did not come up, with the end of its log, since the
// log itself is removed together with the rest.
type StartError struct {
	Component string
	Err       error
	LogTail   string
}

func (e *StartError) Error() string {
	s := fmt.Sprintf("%s did not come up: %v", e.Component, e.Err)
	if e.LogTail != "" {
		s += "\nIts log ends with:\n  " + strings.ReplaceAll(strings.TrimRight(e.LogTail, "\n"), "\n", "\n  ")
	}
	return s
}

func (e *StartError) Unwrap() error { return e.Err }

// Is makes the error match ErrEnvironment.
func (e *StartError) Is(target error) bool { return target == ErrEnvironment }

// RemoteError refuses an address on another machine: faults belong on one's own.
type RemoteError struct {
	Variable, Host string
}

func (e *RemoteError) Error() string {
	return fmt.Sprintf("%s points at %s, which is not this machine: refused, since faults are injected there (--allow-remote permits it)",
		e.Variable, e.Host)
}

// AddressError is an address, or another variable, that can't be used as it stands. It never
// repeats the address, which may hold a password.
type AddressError struct {
	Variable, Reason string
}

func (e *AddressError) Error() string { return e.Variable + ": " + e.Reason }

func displayName(component string) string {
	switch component {
	case ComponentPostgres:
		return "PostgreSQL"
	case ComponentRabbitMQ:
		return "RabbitMQ"
	}
	return component
}

func addressVariable(component string) string {
	if component == ComponentPostgres {
		return AddressPostgres
	}
	return AddressRabbitMQ
}
