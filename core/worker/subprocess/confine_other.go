//go:build unix && !linux

package subprocess

import (
	"errors"
	"os/exec"
	"syscall"
)

// ProtectWorker does nothing on this system.
func ProtectWorker() {}

// concealProcess hides the pipe for reports from the action.
func concealProcess() { syscall.CloseOnExec(reportsFD) }

// limitArgument is never used on this system.
const limitArgument = "action-limits"

func (l *launch) limitedArgv() []string { return l.Argv }

func limitMain([]string) error {
	return errors.New("this system can't limit single processes")
}

// processAttributes sets no parent death signal, because this system has none. If the shim is killed, its
// worker kills the group.
func (l *launch) processAttributes() (attr *syscall.SysProcAttr, release func(), err error) {
	attr = &syscall.SysProcAttr{Setpgid: true}
	if l.Account != nil {
		attr.Credential = &syscall.Credential{Uid: l.Account.UID, Gid: l.Account.GID}
	}
	return attr, func() {}, nil
}

func (*Runner) useGuardGroup(*syscall.SysProcAttr) (release func(), err error) { return func() {}, nil }

func startShim(c *exec.Cmd) error { return c.Start() }

func waitShim(c *exec.Cmd) { _ = c.Wait() }

// killOrphans does nothing: on this system init adopts orphans.
func killOrphans() {}

// privateDirs returns nil: this system has no mount namespaces.
func privateDirs() []string { return nil }

func mountLack() string { return "it needs Linux" }

func (*launch) keptPaths([]string) []string { return nil }
