//go:build unix

package compose

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps Ctrl-C from a command: whoever has called it ends it, with all that it has started, and takes down
// what it made.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
