//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package servers

import (
	"fmt"
	"os"
	"sync"
	"syscall"
)

// claims is a file in which every byte stands for a port. A process that has chosen a port locks
// its byte, so that no other harness of the same user chooses the port before its server has
// started. The kernel drops the locks when the process ends; the file, which is empty, stays.
var claims = sync.OnceValue(func() *os.File {
	// Ports belong to the machine, whatever TMPDIR says. Without the file, only the protection is
	// missing.
	f, err := os.OpenFile(fmt.Sprintf("/tmp/handoff-ports-%d", os.Getuid()), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil
	}
	return f
})

// claim reserves a port against other processes of this user, until release, if it is free.
func claim(port int) bool { return lock(port, syscall.F_WRLCK) }

func release(port int) { lock(port, syscall.F_UNLCK) }

func lock(port int, kind int16) bool {
	f := claims()
	return f == nil || syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: kind, Start: int64(port), Len: 1}) == nil
}
