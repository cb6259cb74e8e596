//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package servers

import (
	"fmt"
	"os"
	"sync"
	"syscall"
)

// claims is a file of which every byte stands for a port. Whoever has chosen a port locks its byte, so that no
// other harness of the same user chooses it between the choice and the start of what listens there. The kernel drops the
// locks of a process with its last breath; the file, which has no content, stays.
var claims = sync.OnceValue(func() *os.File {
	// Ports are the machine's, whatever TMPDIR says. A file that can't be had costs the protection and nothing else.
	f, err := os.OpenFile(fmt.Sprintf("/tmp/handoff-ports-%d", os.Getuid()), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil
	}
	return f
})

// claim says whether a port could be had; nobody else of this user has it then, until release.
func claim(port int) bool { return lock(port, syscall.F_WRLCK) }

func release(port int) { lock(port, syscall.F_UNLCK) }

func lock(port int, kind int16) bool {
	f := claims()
	return f == nil || syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: kind, Start: int64(port), Len: 1}) == nil
}
