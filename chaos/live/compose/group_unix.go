//go:build unix

package compose

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps Ctrl-C from a command: its caller ends it with all its children and removes what
// it made.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
