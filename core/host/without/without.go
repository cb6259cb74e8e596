// Package without reads HANDOFF_WITHOUT, which declares what a machine lacks, and decides whether a test that
// needs it is skipped or fails. It is in core because tests of core need users, mounts and control groups;
// other packages use it as well.
//
// A test that can't run is skipped with a reason. On a build machine (CI=true) it fails unless the missing
// thing is declared, because a skip there would go unnoticed.
package without

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// Variable holds names from Known, separated by commas.
const Variable = "HANDOFF_WITHOUT"

// The things that a machine may lack.
const (
	Docker   = "docker" // any container engine
	Postgres = "postgres"
	RabbitMQ = "rabbitmq"
	Chromium = "chromium"
	Python   = "python"
	Node     = "node"
	Promtool = "promtool" // checks rules and configuration of Prometheus
	Root     = "root"     // starts processes as other users
	Mounts   = "mounts"   // gives processes their own view of the file system
	Cgroup   = "cgroup"   // a control group (v2) that the process may divide
	// Controllers means that this control group has the controllers that limit memory, processors and
	// processes.
	Controllers = "controllers"
)

// Known returns every name that the variable may declare.
func Known() []string {
	return []string{Docker, Postgres, RabbitMQ, Chromium, Python, Node, Promtool, Root, Mounts, Cgroup, Controllers}
}

// Declared reads the variable. An unknown name is an error, because a misspelt name would otherwise silently
// declare nothing.
func Declared() (map[string]bool, error) {
	out := map[string]bool{}
	for _, name := range strings.Split(os.Getenv(Variable), ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		if name == "" {
			continue
		}
		if !slices.Contains(Known(), name) {
			return nil, fmt.Errorf("unknown name %q; known are %s", name, strings.Join(Known(), ", "))
		}
		out[name] = true
	}
	return out, nil
}

// TB is the part of *testing.T that Need uses. It keeps the package testing out of binaries.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}

// Need lets a test continue if the machine has the named thing, that is, if lack is nil and the thing is not
// declared missing. Otherwise it skips the test with a reason, or fails it.
func Need(t TB, name string, lack error) {
	t.Helper()
	declared, err := Declared()
	switch {
	case err != nil:
		t.Fatalf("%s: %v", Variable, err)
	case declared[name]:
		t.Skipf("not run: %s names %s", Variable, name)
	case lack == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("%v; provide it, or say that this build machine has none: %s=%s", lack, Variable, name)
	default:
		t.Skipf("not run: %v", lack)
	}
}
